#pragma once
#include <cmath>

#include "kernels/core/dtype.hpp"

namespace shardbench {

/// ClipFactorArgs::factor from its operands.
SB_HOST_DEVICE inline float clip_factor_of(float squares, float max_norm) {
  float const factor = max_norm / (std::sqrt(squares) + 1e-6f);
  return factor < 1 ? factor : 1;
}

}  // namespace shardbench
