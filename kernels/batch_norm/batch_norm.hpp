#pragma once
#include <cstdint>

#include "kernels/core/binding.hpp"
#include "kernels/core/cost.hpp"
#include "kernels/core/device.hpp"

namespace shardbench {

/// Rows are (y, x, sample), columns channels.
struct BatchNormShape {
  std::int64_t rows = 0, cols = 0;
  float eps = 0;
};

/// y = (x - mean) * rstd * weight + bias with mean and variance of each column over all rows (Ioffe & Szegedy 2015, as
/// in training; running averages are not kept). Statistics in fp32.
struct BatchNormForwardArgs {
  using Shape = BatchNormShape;
  /// 7 FLOPs an element: mean, squared deviation, scale and shift.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static BatchNormForwardArgs bind(Shape const& shape, Binding const& binding);

  void const* x = nullptr;       ///< [rows, cols]
  void const* weight = nullptr;  ///< [cols]
  void const* bias = nullptr;    ///< [cols]
  void* y = nullptr;             ///< [rows, cols]
  float* mean = nullptr;         ///< [cols]
  float* rstd = nullptr;         ///< [cols]
  std::int64_t rows = 0, cols = 0;
  float eps = 1e-3f;
  Dtype dtype = Dtype::f32;
};

/// dx, and dweight and dbias (fp32) written or added to when `accumulate`.
struct BatchNormBackwardArgs {
  using Shape = BatchNormShape;
  /// 14 FLOPs an element; dy and x read, dx written.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static BatchNormBackwardArgs bind(Shape const& shape, Binding const& binding);

  void const* dy = nullptr;  ///< [rows, cols]
  void const* x = nullptr;
  void const* weight = nullptr;
  float const* mean = nullptr;
  float const* rstd = nullptr;
  void* dx = nullptr;        ///< [rows, cols]
  float* dweight = nullptr;  ///< [cols]
  float* dbias = nullptr;    ///< [cols]
  float* sums = nullptr;     ///< [2, cols]: receives this call's sums of dy * normalised x and of dy
  std::int64_t rows = 0, cols = 0;
  bool accumulate = false;
  Dtype dtype = Dtype::f32;
};

}  // namespace shardbench
