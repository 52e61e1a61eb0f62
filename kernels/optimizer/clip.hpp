#pragma once
#include "kernels/core/device.hpp"

namespace shardbench {

/// factor = min(1, max_norm / (sqrt(squares) + 1e-6)): what gradients are multiplied by so that their norm stays below
/// max_norm (PyTorch's clip_grad_norm_). One fp32 each, on the device.
struct ClipFactorArgs {
  float const* squares = nullptr;  ///< sum of squares over all gradients
  float* factor = nullptr;
  float max_norm = 0;
};

}  // namespace shardbench
