#include <cmath>
#include <numbers>

#include "kernels/core/element.hpp"
#include "kernels/kernel_set_ref.hpp"

namespace shardbench::reference {
namespace {

/// A function and its derivative at one point.
struct Value {
  double f, slope;
};

/// GELU: Hendrycks & Gimpel 2016, exact and with their tanh approximation; SiLU: x * sigmoid(x).
Value activate(ActivationKind kind, double x) {
  if (kind == ActivationKind::silu) {
    double const sigmoid = 1 / (1 + std::exp(-x));
    return {x * sigmoid, sigmoid * (1 + x * (1 - sigmoid))};
  }
  if (kind == ActivationKind::gelu_erf) {
    double const cdf = 0.5 * (1 + std::erf(x / std::numbers::sqrt2));
    return {x * cdf, cdf + x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi)};
  }
  double const scale = std::sqrt(2 / std::numbers::pi);
  double const t = std::tanh(scale * (x + 0.044715 * x * x * x));
  return {0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * scale * (1 + 3 * 0.044715 * x * x)};
}

}  // namespace

void activation_forward(ActivationForwardArgs const& args) {
  std::int64_t const x_cols = args.gated ? 2 * args.cols : args.cols;
  for (std::int64_t r = 0; r < args.rows; ++r) {
    for (std::int64_t c = 0; c < args.cols; ++c) {
      double const gate = read_element(args.x, args.dtype, r * x_cols + c);
      double const up = args.gated ? read_element(args.x, args.dtype, r * x_cols + args.cols + c) : 1.0;
      write_element(args.y, args.dtype, r * args.cols + c, activate(args.kind, gate).f * up);
    }
  }
}

void activation_backward(ActivationBackwardArgs const& args) {
  std::int64_t const x_cols = args.gated ? 2 * args.cols : args.cols;
  for (std::int64_t r = 0; r < args.rows; ++r) {
    for (std::int64_t c = 0; c < args.cols; ++c) {
      std::int64_t const at_gate = r * x_cols + c, at_up = at_gate + args.cols;
      double const dy = read_element(args.dy, args.dtype, r * args.cols + c);
      Value const value = activate(args.kind, read_element(args.x, args.dtype, at_gate));
      double const up = args.gated ? read_element(args.x, args.dtype, at_up) : 1.0;
      write_element(args.dx, args.dtype, at_gate, dy * up * value.slope);
      if (args.gated) write_element(args.dx, args.dtype, at_up, dy * value.f);
    }
  }
}

}  // namespace shardbench::reference
