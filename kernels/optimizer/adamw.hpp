#pragma once
#include <cstdint>

#include "kernels/core/binding.hpp"
#include "kernels/core/cost.hpp"
#include "kernels/core/device.hpp"

namespace shardbench {

/// Parameters that this rank updates.
struct AdamWShape {
  std::int64_t count = 0;
};

/// One AdamW step (Loshchilov & Hutter 2019) over a flat range. The master copy is updated and rounded into
/// `parameter`.
struct AdamWArgs {
  using Shape = AdamWShape;
  /// 14 FLOPs a parameter; both averages and the master (when there is one) read and written.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static AdamWArgs bind(Shape const& shape, Binding const& binding);

  void* parameter = nullptr;       ///< [count] of parameter_dtype
  float* master = nullptr;         ///< [count], or nullptr when parameter_dtype is f32
  float* exp_avg = nullptr;        ///< [count]
  float* exp_avg_sq = nullptr;     ///< [count]
  void const* gradient = nullptr;  ///< [count] of gradient_dtype
  std::int64_t count = 0;
  std::int64_t step = 1;  ///< 1 at the first update
  float learning_rate = 1e-3f, beta1 = 0.9f, beta2 = 0.95f, eps = 1e-8f, weight_decay = 0.1f;
  float const* gradient_scale = nullptr;  ///< one fp32 multiplier (clipping) on the device, or nullptr
  Dtype parameter_dtype = Dtype::f32;
  Dtype gradient_dtype = Dtype::f32;
};

}  // namespace shardbench
