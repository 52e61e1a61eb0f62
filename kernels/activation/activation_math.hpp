#pragma once
#include <type_traits>

#include "kernels/activation/activation.hpp"
#include "kernels/core/fast_math.hpp"

namespace shardbench {

/// f(x) and f'(x).
struct ActivationValue {
  float f, slope;
};

/// A logistic function and 1 minus it, both without cancellation.
struct Logistic {
  float value, complement;
};

SB_HOST_DEVICE inline Logistic logistic(float x) {
  float const e = fast_exp(x < -80.0f ? 80.0f : -x);  // bounded: infinity times zero would be NaN
  float const value = 1.0f / (1.0f + e);
  return {value, e * value};
}

/// Calls `body` with the kind as an integral constant, so that a loop is compiled for each.
template <class Body>
void with_kind(ActivationKind kind, Body const& body) {
  switch (kind) {
    case ActivationKind::gelu_tanh:
      return body(std::integral_constant<ActivationKind, ActivationKind::gelu_tanh>{});
    case ActivationKind::gelu_erf:
      return body(std::integral_constant<ActivationKind, ActivationKind::gelu_erf>{});
    case ActivationKind::silu:
      return body(std::integral_constant<ActivationKind, ActivationKind::silu>{});
  }
}

/// GELU (Hendrycks & Gimpel 2016), by erf or by their tanh approximation, and SiLU: one definition for host and device.
template <ActivationKind kind>
SB_HOST_DEVICE inline ActivationValue activate(float x) {
  if constexpr (kind == ActivationKind::silu) {
    Logistic const s = logistic(x);
    return {x * s.value, s.value + x * s.value * s.complement};
  } else if constexpr (kind == ActivationKind::gelu_erf) {
    float const cdf = 0.5f + 0.5f * fast_erf(x * 0.70710678f);
    return {x * cdf, cdf + x * 0.39894228f * fast_exp(-0.5f * x * x)};
  } else {
    constexpr float twice_scale = 1.59576912f, cubic = 0.044715f;  // 2 sqrt(2 / pi)
    // (1 + tanh(u)) / 2 is the logistic function of 2u, which loses nothing in the tails.
    Logistic const s = logistic(twice_scale * (x + cubic * x * x * x));
    return {x * s.value, s.value + x * s.value * s.complement * twice_scale * (1.0f + 3.0f * cubic * x * x)};
  }
}

}  // namespace shardbench
