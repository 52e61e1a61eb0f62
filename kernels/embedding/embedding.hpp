#pragma once
#include <cstdint>

#include "kernels/core/device.hpp"

namespace shardbench {

/// out[t] = scale * weight[ids[t] - first_row], zeros where that row is another rank's; added to out when `accumulate`.
struct EmbeddingForwardArgs {
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
  std::int32_t const* ids = nullptr;
  void const* dout = nullptr;  ///< [tokens, cols] of dtype
  float* dweight = nullptr;    ///< [rows, cols]
  std::int64_t tokens = 0, rows = 0, cols = 0, first_row = 0;
  bool accumulate = false;
  Dtype dtype = Dtype::f32;
  float scale = 1;
};

}  // namespace shardbench
