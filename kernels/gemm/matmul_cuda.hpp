#pragma once
#include "kernels/core/cuda/stream.hpp"

namespace shardbench {

/// A row-major matrix as stored, and the distance (elements) to the same matrix of the next batch entry.
struct Matrix {
  void const* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t batch_stride = 0;
  Dtype dtype = Dtype::f32;
  bool transposed = false;  ///< the product uses its transpose; never set for the output
};

/// C = alpha op(A) op(B) + beta C (+ bias on each row) for each of `batch` entries. Sizes are those of the product.
struct MatmulProblem {
  Matrix a, b, c;
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  float alpha = 1, beta = 0;
  void const* bias = nullptr;      ///< [n] of the output's dtype, unbatched
  float const* scale_a = nullptr;  ///< fp8 only: on the device; nullptr: 1
  float const* scale_b = nullptr;
};

/// Enqueues one cuBLASLt product, accumulated in fp32. m, n, k and batch must be positive.
void matmul(CudaStream& stream, MatmulProblem const& problem);

/// c = beta * c + bias on every row, for what cuBLASLt does not take: k = 0, or a bias of another dtype than c.
void add_bias(CudaStream& stream, Matrix const& c, std::int64_t rows, std::int64_t cols, float beta, void const* bias,
              Dtype bias_dtype);

}  // namespace shardbench
