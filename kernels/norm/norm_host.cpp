#include <algorithm>
#include <cmath>

#include "kernels/core/row_host.hpp"
#include "kernels/core/storage.hpp"
#include "kernels/kernel_set_host.hpp"

namespace shardbench::host {
namespace {

// Column sums are collected over this many rows before they are added to the total, which keeps rounding small.
constexpr std::int64_t rows_per_partial_sum = 64;

/// Row r of the normalised input in fp32; writes x + residual on the way.
template <class T>
void load_input(NormForwardArgs const& args, std::int64_t r, float* row) {
  T const* const x = static_cast<T const*>(args.x) + vector_offset(r, args.heads, args.cols, args.x_stride);
  if (args.residual == nullptr) {
    load_row(x, row, args.cols);
    return;
  }
  T const* const residual = static_cast<T const*>(args.residual) + r * args.cols;
  T* const sum = static_cast<T*>(args.sum) + r * args.cols;
#pragma omp simd
  for (std::int64_t c = 0; c < args.cols; ++c) sum[c] = from_float<T>(to_float(x[c]) + to_float(residual[c]));
  // What is normalised is the sum as stored, so that fused and separate addition give the same result.
  load_row(sum, row, args.cols);
}

template <class T, class HasBias>
void forward_rows(NormForwardArgs const& args, HasBias) {
  thread_local Workspace workspace;
  float* const row = workspace.floats(args.cols);
  auto const* const weight = static_cast<T const*>(args.weight);
  auto const* const bias = static_cast<T const*>(args.bias);
  std::int64_t const n = args.cols;
  auto const cols = static_cast<float>(n);
  for (std::int64_t r = 0; r < args.rows * args.heads; ++r) {
    load_input<T>(args, r, row);
    bool const centred = args.kind == NormKind::layer_norm;
    float const mean = centred ? sum_row(n, [&](std::int64_t c) { return row[c]; }) / cols : 0.0f;
    float const square = sum_row(n, [&](std::int64_t c) { return (row[c] - mean) * (row[c] - mean); });
    float const rstd = 1.0f / std::sqrt(square / cols + args.eps);
    T* const y = static_cast<T*>(args.y) + vector_offset(r, args.heads, n, args.y_stride);
#pragma omp simd
    for (std::int64_t c = 0; c < n; ++c) {
      float const scaled = (row[c] - mean) * rstd * (to_float(weight[c]) + args.weight_offset);
      if constexpr (HasBias::value) {
        y[c] = from_float<T>(scaled + to_float(bias[c]));
      } else {
        y[c] = from_float<T>(scaled);
      }
    }
    if (args.mean != nullptr) args.mean[r] = mean;
    if (args.rstd != nullptr) args.rstd[r] = rstd;
  }
}

/// Scratch rows of the backward pass.
struct BackwardRows {
  float *normalised, *scaled, *weight, *dweight, *dbias;
};

/// dx of row r, its share of the column sums added to the partial sums.
template <class T>
void backward_row(NormBackwardArgs const& args, std::int64_t r, BackwardRows const& rows) {
  bool const centred = args.kind == NormKind::layer_norm;
  std::int64_t const n = args.cols;
  std::int64_t const x_at = vector_offset(r, args.heads, n, args.x_stride);
  T const* const dy = static_cast<T const*>(args.dy) + vector_offset(r, args.heads, n, args.y_stride);
  T const* const x = static_cast<T const*>(args.x) + x_at;
  float const mean = centred ? args.mean[r] : 0.0f, rstd = args.rstd[r];
#pragma omp simd
  for (std::int64_t c = 0; c < n; ++c) {
    float const gradient = to_float(dy[c]);
    rows.normalised[c] = (to_float(x[c]) - mean) * rstd;
    rows.scaled[c] = gradient * rows.weight[c];
    rows.dweight[c] += gradient * rows.normalised[c];
    rows.dbias[c] += gradient;
  }
  auto const cols = static_cast<float>(n);
  float const mean_scaled = centred ? sum_row(n, [&](std::int64_t c) { return rows.scaled[c]; }) / cols : 0.0f;
  float const mean_product = sum_row(n, [&](std::int64_t c) { return rows.scaled[c] * rows.normalised[c]; }) / cols;
  T* const dx = static_cast<T*>(args.dx) + x_at;
  with_flag(args.dsum != nullptr, [&](auto has_dsum) {
    T const* const dsum = has_dsum ? static_cast<T const*>(args.dsum) + x_at : nullptr;
#pragma omp simd
    for (std::int64_t c = 0; c < n; ++c) {
      float value = rstd * (rows.scaled[c] - mean_scaled - rows.normalised[c] * mean_product);
      if constexpr (decltype(has_dsum)::value) value += to_float(dsum[c]);
      dx[c] = from_float<T>(value);
    }
  });
}

void add_partial(float* partial, float* total, std::int64_t n) {
  for (std::int64_t c = 0; c < n; ++c) total[c] += partial[c];
  std::fill_n(partial, n, 0.0f);
}

template <class T>
void backward_rows(NormBackwardArgs const& args) {
  thread_local Workspace workspace;
  std::int64_t const n = args.cols, rows_in_all = args.rows * args.heads;
  float* const scratch = workspace.floats(5 * n);
  BackwardRows const rows{scratch, scratch + n, scratch + 2 * n, scratch + 3 * n, scratch + 4 * n};
  std::fill_n(rows.dweight, 2 * n, 0.0f);
  for (std::int64_t c = 0; c < n; ++c) {
    rows.weight[c] = to_float(static_cast<T const*>(args.weight)[c]) + args.weight_offset;
  }
  bool const wants_weight = args.dweight != nullptr, wants_bias = wants_weight && args.dbias != nullptr;
  if (wants_weight && !args.accumulate) std::fill_n(args.dweight, n, 0.0f);
  if (wants_bias && !args.accumulate) std::fill_n(args.dbias, n, 0.0f);
  for (std::int64_t first = 0; first < rows_in_all; first += rows_per_partial_sum) {
    std::int64_t const last = std::min(rows_in_all, first + rows_per_partial_sum);
    for (std::int64_t r = first; r < last; ++r) backward_row<T>(args, r, rows);
    if (wants_weight) add_partial(rows.dweight, args.dweight, n);
    if (wants_bias) add_partial(rows.dbias, args.dbias, n);
  }
}

}  // namespace

void norm_forward(NormForwardArgs const& args) {
  if (args.cols == 0) return;
  with_storage(args.dtype, "norm", [&]<class T>(T) {
    with_flag(args.bias != nullptr, [&](auto has_bias) { forward_rows<T>(args, has_bias); });
  });
}

void norm_backward(NormBackwardArgs const& args) {
  if (args.cols == 0) return;
  with_storage(args.dtype, "norm", [&]<class T>(T) { backward_rows<T>(args); });
}

}  // namespace shardbench::host
