#pragma once
#include <cstdint>

#include "kernels/core/binding.hpp"
#include "kernels/core/cost.hpp"
#include "kernels/core/device.hpp"

namespace shardbench {

/// Rows are (sequence, batch); `copies` batch entries are one sample. `site` names the place in the model.
struct DropoutShape {
  std::int64_t rows = 0, cols = 0, batch = 1, copies = 1;
  float rate = 0;
  std::uint64_t site = 0;
};

/// out = residual + dropout(x + bias) over [rows, cols]: an element is dropped with probability `rate`, what stays is
/// divided by 1 - rate. Rows are (sequence, batch), sequence outermost. Which elements go depends on the key and on the
/// element's global place (sample, position, column) alone, so every cut of a step drops the same ones.
struct DropoutArgs {
  using Shape = DropoutShape;
  /// 4 FLOPs an element (bias, mask, scale, sum); x read, out written, the residual read too where there is one.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static DropoutArgs bind(Shape const& shape, Binding const& binding);

  void const* x = nullptr;
  void const* bias = nullptr;      ///< [cols] or nullptr
  void const* residual = nullptr;  ///< [rows, cols] or nullptr; may be out
  void* out = nullptr;             ///< may be x
  std::int64_t rows = 0, cols = 0;
  float rate = 0;  ///< 0 drops nothing: `positions` may then be nullptr
  std::uint64_t key = 0;
  std::int32_t const* positions = nullptr;  ///< [rows / batch] place in the whole sequence
  std::int64_t batch = 1, seq = 0, first_sample = 0;
  std::int64_t copies = 1;  ///< neighbouring batch entries that are one sample
  Dtype dtype = Dtype::f32;
};

}  // namespace shardbench
