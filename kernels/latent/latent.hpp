#pragma once
#include <cstdint>

#include "kernels/core/binding.hpp"
#include "kernels/core/cost.hpp"
#include "kernels/core/device.hpp"

namespace shardbench {

/// Sizes of the keys of latent attention: each head's key is [rotary | plain], the rotary part shared by all heads.
struct LatentKeyShape {
  std::int64_t rows = 0, heads = 0, plain_dim = 0, rotary_dim = 0;
  std::int64_t plain_stride = 0, rotary_stride = 0;  ///< elements between rows; keys are dense
  Dtype dtype = Dtype::f32;
  std::int64_t key_dim() const { return rotary_dim + plain_dim; }
};

/// Keys of latent attention: each head's is [rotary | plain], the rotary part shared.
struct LatentKeysShape {
  std::int64_t rows = 0, heads = 0, plain_dim = 0, rotary_dim = 0;
};

/// keys[r, h] = [rotary[r] | plain[r, h]].
struct JoinKeysArgs {
  using Shape = LatentKeysShape;
  /// No FLOPs: both parts read, every head's key written.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static JoinKeysArgs bind(Shape const& shape, Binding const& binding);

  LatentKeyShape shape;
  void const* plain = nullptr;   ///< [rows, heads * plain_dim]
  void const* rotary = nullptr;  ///< [rows, rotary_dim]
  void* keys = nullptr;          ///< [rows, heads * key_dim]
};

/// The gradients: dplain[r, h] is a slice of dkeys, drotary[r] the sum over the heads (fp32, in order of heads).
struct SplitKeysArgs {
  using Shape = LatentKeysShape;
  /// One addition an element of the rotary parts, which are summed over the heads.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static SplitKeysArgs bind(Shape const& shape, Binding const& binding);

  LatentKeyShape shape;
  void const* dkeys = nullptr;
  void* dplain = nullptr;
  void* drotary = nullptr;
};

}  // namespace shardbench
