#pragma once
#include <cstdint>

#include "kernels/core/device.hpp"

namespace shardbench {

/// Sizes of the keys of latent attention: each head's key is [rotary | plain], the rotary part shared by all heads.
struct LatentKeyShape {
  std::int64_t rows = 0, heads = 0, plain_dim = 0, rotary_dim = 0;
  std::int64_t plain_stride = 0, rotary_stride = 0;  ///< elements between rows; keys are dense
  Dtype dtype = Dtype::f32;
  std::int64_t key_dim() const { return rotary_dim + plain_dim; }
};

/// keys[r, h] = [rotary[r] | plain[r, h]].
struct JoinKeysArgs {
  LatentKeyShape shape;
  void const* plain = nullptr;   ///< [rows, heads * plain_dim]
  void const* rotary = nullptr;  ///< [rows, rotary_dim]
  void* keys = nullptr;          ///< [rows, heads * key_dim]
};

/// The gradients: dplain[r, h] is a slice of dkeys, drotary[r] the sum over the heads (fp32, in order of heads).
struct SplitKeysArgs {
  LatentKeyShape shape;
  void const* dkeys = nullptr;
  void* dplain = nullptr;
  void* drotary = nullptr;
};

}  // namespace shardbench
