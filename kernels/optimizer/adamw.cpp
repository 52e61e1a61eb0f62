#include "kernels/optimizer/adamw.hpp"

namespace shardbench {

OpCost AdamWArgs::cost(AdamWShape const& s, CostContext const& context) {
  // Without a master the parameter itself is read and written; with one it is only written.
  double const parameter = width_of(context.precision);
  double const parameter_bytes = context.has_output(1) ? parameter + 2 * fp32_bytes : 2 * parameter;
  return {14 * static_cast<double>(s.count),
          static_cast<double>(s.count) * (parameter_bytes + width_of(context.input) + 4 * fp32_bytes)};
}

AdamWArgs AdamWArgs::bind(AdamWShape const& s, Binding const& b) {
  AdamWArgs a;
  a.gradient = b.in(0).data, a.gradient_scale = b.in(1).as<float>();
  a.parameter = b.out(0).data, a.master = b.out(1).as<float>();
  a.exp_avg = b.out(2).as<float>(), a.exp_avg_sq = b.out(3).as<float>();
  a.count = s.count, a.step = b.step;
  a.learning_rate = b.optimizer.learning_rate, a.beta1 = b.optimizer.beta1, a.beta2 = b.optimizer.beta2;
  a.eps = b.optimizer.eps, a.weight_decay = b.optimizer.weight_decay;
  a.parameter_dtype = b.out(0).dtype, a.gradient_dtype = b.in(0).dtype;
  return a;
}

}  // namespace shardbench
