#pragma once
#include "kernels/core/binding.hpp"
#include "kernels/core/cost.hpp"
#include "kernels/core/device.hpp"

namespace shardbench {

/// The norm that gradients are held to.
struct ClipShape {
  float max_norm = 0;
};

/// factor = min(1, max_norm / (sqrt(squares) + 1e-6)): what gradients are multiplied by so that their norm stays below
/// max_norm (PyTorch's clip_grad_norm_). One fp32 each, on the device.
struct ClipFactorArgs {
  using Shape = ClipShape;
  /// A root, a sum, a quotient and a comparison.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static ClipFactorArgs bind(Shape const& shape, Binding const& binding);

  float const* squares = nullptr;  ///< sum of squares over all gradients
  float* factor = nullptr;
  float max_norm = 0;
};

}  // namespace shardbench
