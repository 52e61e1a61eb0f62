#include "kernels/gemm/sgemm_host.hpp"

#include <cblas.h>

#include <algorithm>
#include <limits>
#include <string>

#include "kernels/core/error.hpp"

namespace shardbench::host {
namespace {

int blas_int(std::int64_t size) {
  VALIDATE(size >= 0 && size <= std::numeric_limits<int>::max(),
           "matrix size " + std::to_string(size) + " does not fit the 32-bit interface of the BLAS");
  return static_cast<int>(size);
}

void scale_rows(std::int64_t m, std::int64_t n, float beta, float* c, std::int64_t stride) {
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) c[i * stride + j] = beta == 0 ? 0.0f : beta * c[i * stride + j];
  }
}

}  // namespace

void sgemm(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, MatrixView a, MatrixView b, float beta,
           float* c, std::int64_t c_stride) {
  if (m == 0 || n == 0) return;
  if (k == 0) {  // BLAS libraries differ in what they accept here
    scale_rows(m, n, beta, c, c_stride);
    return;
  }
  auto const order = [](bool transposed) { return transposed ? CblasTrans : CblasNoTrans; };
  cblas_sgemm(CblasRowMajor, order(a.transposed), order(b.transposed), blas_int(m), blas_int(n), blas_int(k), alpha,
              a.data, blas_int(a.stride), b.data, blas_int(b.stride), beta, c, blas_int(c_stride));
}

}  // namespace shardbench::host
