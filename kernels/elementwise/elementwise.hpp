#pragma once
#include <cstdint>

#include "kernels/core/device.hpp"

namespace shardbench {

/// out = a + b * scale; out may be a or b.
struct AddArgs {
  void const* a = nullptr;
  void const* b = nullptr;
  void* out = nullptr;
  std::int64_t count = 0;
  float scale = 1;
  Dtype dtype = Dtype::f32;
};

/// sums[n] (fp32) = column sums of x[rows, cols]; added to when `accumulate`. Rows are summed in a fixed order.
struct ColumnSumArgs {
  void const* x = nullptr;
  float* sums = nullptr;
  std::int64_t rows = 0, cols = 0;
  bool accumulate = false;
  Dtype dtype = Dtype::f32;
};

/// Copies a block of `rows` x `cols` elements between two row strides, times `scale` (floats only, unless it is 1),
/// converting dtype: packing, slicing, casting.
struct CopyBlockArgs {
  void const* from = nullptr;
  void* to = nullptr;
  std::int64_t rows = 0, cols = 0, from_stride = 0, to_stride = 0;
  Dtype from_dtype = Dtype::f32;
  Dtype to_dtype = Dtype::f32;
  float scale = 1;
};

/// out[0] (fp32) = sum of squares of x; added to when `accumulate` (gradient norms).
struct SquareSumArgs {
  void const* x = nullptr;
  float* out = nullptr;
  std::int64_t count = 0;
  bool accumulate = false;
  Dtype dtype = Dtype::f32;
};

/// x *= factor, in place (`factor_device`, one fp32 on the device, multiplies too when given).
struct ScaleArgs {
  void* x = nullptr;
  std::int64_t count = 0;
  float factor = 1;
  float const* factor_device = nullptr;
  Dtype dtype = Dtype::f32;
};

}  // namespace shardbench
