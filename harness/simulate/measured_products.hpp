#pragma once
#include <vector>

#include "harness/config/system_profile.hpp"
#include "harness/program/step_program.hpp"

namespace shardbench {

/// By what factor the formula (gemm_us) is off near a shape: what samples of the same layout (of any, when there are
/// none) say, weighted by 1 / distance^4 in the logarithms of m, n and k. 1 without samples.
double product_correction(DeviceProfile const& device, Dtype precision, GemmShape const& shape);

}  // namespace shardbench
