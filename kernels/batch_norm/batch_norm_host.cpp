#include <algorithm>
#include <cmath>

#include "kernels/core/row_host.hpp"
#include "kernels/core/storage.hpp"
#include "kernels/kernel_set_host.hpp"

namespace shardbench::host {
namespace {

constexpr std::int64_t rows_per_partial_sum = 64;

/// sums[c] = sum over rows of term(row, c), fp32 sums no longer than rows_per_partial_sum.
template <class Term>
void sum_rows(std::int64_t rows, std::int64_t cols, float* sums, Term const& term) {
  thread_local Workspace workspace;
  float* const partial = workspace.floats(cols);
  std::fill_n(sums, cols, 0.0f);
  for (std::int64_t first = 0; first < rows; first += rows_per_partial_sum) {
    std::fill_n(partial, cols, 0.0f);
    for (std::int64_t r = first; r < std::min(rows, first + rows_per_partial_sum); ++r) {
#pragma omp simd
      for (std::int64_t c = 0; c < cols; ++c) partial[c] += term(r, c);
    }
    for (std::int64_t c = 0; c < cols; ++c) sums[c] += partial[c];
  }
}

}  // namespace

void batch_norm_forward(BatchNormForwardArgs const& args) {
  if (args.rows == 0) return;
  std::int64_t const rows = args.rows, cols = args.cols;
  float const share = 1.0f / static_cast<float>(rows);
  float *const mean = args.mean, *const rstd = args.rstd;
  with_storage(args.dtype, "batch norm", [&]<class T>(T) {
    auto const* const x = static_cast<T const*>(args.x);
    auto const* const weight = static_cast<T const*>(args.weight);
    auto const* const bias = static_cast<T const*>(args.bias);
    auto* const y = static_cast<T*>(args.y);
    sum_rows(rows, cols, mean, [=](std::int64_t r, std::int64_t c) { return to_float(x[r * cols + c]); });
    for (std::int64_t c = 0; c < cols; ++c) mean[c] *= share;
    sum_rows(rows, cols, rstd, [=](std::int64_t r, std::int64_t c) {
      float const d = to_float(x[r * cols + c]) - mean[c];
      return d * d;
    });
    for (std::int64_t c = 0; c < cols; ++c) rstd[c] = 1.0f / std::sqrt(rstd[c] * share + args.eps);
    for (std::int64_t r = 0; r < rows; ++r) {
#pragma omp simd
      for (std::int64_t c = 0; c < cols; ++c)
        y[r * cols + c] =
            from_float<T>((to_float(x[r * cols + c]) - mean[c]) * rstd[c] * to_float(weight[c]) + to_float(bias[c]));
    }
  });
}

void batch_norm_backward(BatchNormBackwardArgs const& args) {
  std::int64_t const rows = args.rows, cols = args.cols;
  float const share = rows > 0 ? 1.0f / static_cast<float>(rows) : 0.0f;
  float const *const mean = args.mean, *const rstd = args.rstd;
  float *const dweight = args.sums, *const dbias = args.sums + cols;
  with_storage(args.dtype, "batch norm", [&]<class T>(T) {
    auto const* const dy = static_cast<T const*>(args.dy);
    auto const* const x = static_cast<T const*>(args.x);
    auto const* const weight = static_cast<T const*>(args.weight);
    auto* const dx = static_cast<T*>(args.dx);
    sum_rows(rows, cols, dweight, [=](std::int64_t r, std::int64_t c) {
      return to_float(dy[r * cols + c]) * (to_float(x[r * cols + c]) - mean[c]) * rstd[c];
    });
    sum_rows(rows, cols, dbias, [=](std::int64_t r, std::int64_t c) { return to_float(dy[r * cols + c]); });
    for (std::int64_t r = 0; r < rows; ++r) {
#pragma omp simd
      for (std::int64_t c = 0; c < cols; ++c) {
        float const unit = (to_float(x[r * cols + c]) - mean[c]) * rstd[c];
        dx[r * cols + c] = from_float<T>(rstd[c] * to_float(weight[c]) *
                                         (to_float(dy[r * cols + c]) - share * (dbias[c] + unit * dweight[c])));
      }
    }
  });
  for (std::int64_t c = 0; c < cols; ++c) {
    args.dweight[c] = dweight[c] + (args.accumulate ? args.dweight[c] : 0.0f);
    args.dbias[c] = dbias[c] + (args.accumulate ? args.dbias[c] : 0.0f);
  }
}

}  // namespace shardbench::host
