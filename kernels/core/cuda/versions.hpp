#pragma once
#include <string>

namespace shardbench {

/// Version of cuBLASLt, "13.0.2"; defined where cuBLAS may be included, in gemm.
std::string cublas_version();

}  // namespace shardbench
