#pragma once
#include "kernels/activation/activation.hpp"
#include "kernels/core/fast_math.hpp"

namespace shardbench {

/// f(x) and f'(x).
struct ActivationValue {
  float f, slope;
};

/// GELU (Hendrycks & Gimpel 2016), by erf or by their tanh approximation, and SiLU: one definition for host and device.
template <ActivationKind kind>
SB_HOST_DEVICE inline ActivationValue activate(float x) {
  if constexpr (kind == ActivationKind::silu) {
    float const sigmoid = 1.0f / (1.0f + fast_exp(-x));
    return {x * sigmoid, sigmoid * (1.0f + x * (1.0f - sigmoid))};
  } else if constexpr (kind == ActivationKind::gelu_erf) {
    float const cdf = 0.5f + 0.5f * fast_erf(x * 0.70710678f);
    return {x * cdf, cdf + x * 0.39894228f * fast_exp(-0.5f * x * x)};
  } else {
    constexpr float scale = 0.79788456f, cubic = 0.044715f;  // sqrt(2 / pi)
    float const t = fast_tanh(scale * (x + cubic * x * x * x));
    float const half = 0.5f + 0.5f * t;
    return {x * half, half + 0.5f * x * (1.0f - t * t) * scale * (1.0f + 3.0f * cubic * x * x)};
  }
}

}  // namespace shardbench
