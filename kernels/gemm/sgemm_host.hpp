#pragma once
#include <cstdint>

namespace shardbench::host {

/// A row-major matrix as stored, and whether its transpose takes part.
struct MatrixView {
  float const* data = nullptr;
  std::int64_t stride = 0;  ///< elements between stored rows
  bool transposed = false;
};

/// c[m,n] = alpha * op(a)[m,k] op(b)[k,n] + beta * c through the CPU BLAS; beta = 0 overwrites. Sizes must fit an int.
void sgemm(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, MatrixView a, MatrixView b, float beta,
           float* c, std::int64_t c_stride);

}  // namespace shardbench::host
