#pragma once
#include <cstdint>

#include "kernels/core/binding.hpp"
#include "kernels/core/cost.hpp"
#include "kernels/core/device.hpp"

namespace shardbench {

/// Rows [first_row, first_row + rows) of the vocabulary, looked up for `tokens`.
struct EmbeddingShape {
  std::int64_t tokens = 0, rows = 0, cols = 0, first_row = 0;
  float scale = 1;
};

/// out[t] = scale * weight[ids[t] - first_row], zeros where that row is another rank's; added to out when `accumulate`.
struct EmbeddingForwardArgs {
  using Shape = EmbeddingShape;
  /// No FLOPs: rows of `weight` read, `out` written (read too when added to).
  static OpCost cost(Shape const& shape, CostContext const& context);
  static EmbeddingForwardArgs bind(Shape const& shape, Binding const& binding);

  std::int32_t const* ids = nullptr;  ///< [tokens] global row numbers
  void const* weight = nullptr;       ///< [rows, cols]
  void* out = nullptr;                ///< [tokens, cols]
  std::int64_t tokens = 0, rows = 0, cols = 0, first_row = 0;
  bool accumulate = false;
  Dtype dtype = Dtype::f32;
  float scale = 1;
};

/// dweight[ids[t] - first_row] += scale * dout[t] in token order (deterministic); zeroed first unless `accumulate`.
struct EmbeddingBackwardArgs {
  using Shape = EmbeddingShape;
  /// One addition an element; fp32 rows read and written, the whole gradient zeroed unless added to.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static EmbeddingBackwardArgs bind(Shape const& shape, Binding const& binding);

  std::int32_t const* ids = nullptr;
  void const* dout = nullptr;  ///< [tokens, cols] of dtype
  float* dweight = nullptr;    ///< [rows, cols]
  std::int64_t tokens = 0, rows = 0, cols = 0, first_row = 0;
  bool accumulate = false;
  Dtype dtype = Dtype::f32;
  float scale = 1;
};

}  // namespace shardbench
