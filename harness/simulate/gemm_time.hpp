#pragma once
#include <cstdint>

#include "harness/config/system_profile.hpp"

namespace shardbench {

/// Microseconds of C[m,n] = A[m,k] B[k,n] on a device: the best of a few tile sizes and splits of k, each limited by
/// the waves of tiles over the processors or by memory. `element_bytes` of A and B; `output_bytes` of an element of C,
/// read too when the product adds. Parameters: scripts/fit_gemm.py.
double gemm_us(DeviceProfile const& device, Dtype precision, double m, double n, double k, double element_bytes,
               double output_bytes);

}  // namespace shardbench
