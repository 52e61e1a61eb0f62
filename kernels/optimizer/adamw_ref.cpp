#include <cmath>

#include "kernels/core/element.hpp"
#include "kernels/kernel_set_ref.hpp"

namespace shardbench::reference {

void adamw(AdamWArgs const& args) {
  double const beta1 = static_cast<double>(args.beta1), beta2 = static_cast<double>(args.beta2);
  double const rate = static_cast<double>(args.learning_rate);
  double const scale = args.gradient_scale != nullptr ? static_cast<double>(*args.gradient_scale) : 1.0;
  double const correction1 = 1 - std::pow(beta1, static_cast<double>(args.step));
  double const correction2 = 1 - std::pow(beta2, static_cast<double>(args.step));
  for (std::int64_t i = 0; i < args.count; ++i) {
    double const gradient = scale * read_element(args.gradient, args.gradient_dtype, i);
    double const average = beta1 * static_cast<double>(args.exp_avg[i]) + (1 - beta1) * gradient;
    double const square = beta2 * static_cast<double>(args.exp_avg_sq[i]) + (1 - beta2) * gradient * gradient;
    args.exp_avg[i] = static_cast<float>(average);
    args.exp_avg_sq[i] = static_cast<float>(square);
    double value = args.master != nullptr ? static_cast<double>(args.master[i])
                                          : read_element(args.parameter, args.parameter_dtype, i);
    value -= rate * static_cast<double>(args.weight_decay) * value;
    value -= rate * (average / correction1) / (std::sqrt(square / correction2) + static_cast<double>(args.eps));
    if (args.master != nullptr) args.master[i] = static_cast<float>(value);
    write_element(args.parameter, args.parameter_dtype, i, value);
  }
}

}  // namespace shardbench::reference
