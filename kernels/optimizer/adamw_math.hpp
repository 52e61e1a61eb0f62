#pragma once
#include <cmath>

#include "kernels/optimizer/adamw.hpp"

namespace shardbench {

/// What an AdamW step needs beside the element: the bias corrections are computed once, in double, on the host.
struct AdamWFactors {
  float beta1, beta2, one_minus_beta1, one_minus_beta2;
  float decay;         ///< 1 - learning_rate * weight_decay
  float step_size;     ///< learning_rate / (1 - beta1^step)
  float inverse_root;  ///< 1 / sqrt(1 - beta2^step)
  float eps;
};

/// Factors of the step in `args`.
inline AdamWFactors adamw_factors(AdamWArgs const& args) {
  auto const beta1 = static_cast<double>(args.beta1), beta2 = static_cast<double>(args.beta2);
  auto const rate = static_cast<double>(args.learning_rate), step = static_cast<double>(args.step);
  AdamWFactors factors{};
  factors.beta1 = args.beta1;
  factors.beta2 = args.beta2;
  factors.one_minus_beta1 = static_cast<float>(1 - beta1);
  factors.one_minus_beta2 = static_cast<float>(1 - beta2);
  factors.decay = static_cast<float>(1 - rate * static_cast<double>(args.weight_decay));
  factors.step_size = static_cast<float>(rate / (1 - std::pow(beta1, step)));
  factors.inverse_root = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, step)));
  factors.eps = args.eps;
  return factors;
}

/// One element: both averages are updated, the new parameter is returned.
SB_HOST_DEVICE inline float adamw_update(AdamWFactors const& f, float parameter, float gradient, float& exp_avg,
                                         float& exp_avg_sq) {
  exp_avg = f.beta1 * exp_avg + f.one_minus_beta1 * gradient;
  exp_avg_sq = f.beta2 * exp_avg_sq + f.one_minus_beta2 * gradient * gradient;
  return f.decay * parameter - f.step_size * exp_avg / (std::sqrt(exp_avg_sq) * f.inverse_root + f.eps);
}

}  // namespace shardbench
