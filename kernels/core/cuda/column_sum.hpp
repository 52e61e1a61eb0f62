#pragma once
#include "kernels/core/cuda/launch.hpp"

namespace shardbench {

/// partials[part][c] = sum of value(row, c) over the part's rows, one thread a column; grid (column blocks, parts).
template <class Value>
__global__ void column_partials_kernel(Value value, float* partials, std::int64_t rows, std::int64_t cols) {
  std::int64_t const col = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (col >= cols) return;
  std::int64_t const parts = gridDim.y, part = blockIdx.y;
  float sum = 0;
  for (std::int64_t row = rows * part / parts; row < rows * (part + 1) / parts; ++row) sum += value(row, col);
  partials[part * cols + col] = sum;
}

/// sums[c] (+)= the partial sums of column c, in order.
template <class Unused>
__global__ void column_totals_kernel(float const* partials, float* sums, std::int64_t parts, std::int64_t cols,
                                     bool accumulate) {
  std::int64_t const col = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (col >= cols) return;
  float sum = accumulate ? sums[col] : 0.0f;
  for (std::int64_t part = 0; part < parts; ++part) sum += partials[part * cols + col];
  sums[col] = sum;
}

/// Sums over rows in a fixed order, whatever the GPU: rows are cut into parts, each summed by other blocks.
template <class Value>
void sum_columns(CudaStream& stream, Value const& value, float* sums, std::int64_t rows, std::int64_t cols,
                 bool accumulate) {
  if (cols == 0) return;
  Scratch const scratch = stream.scratch();
  auto const room = static_cast<std::int64_t>(scratch.bytes / sizeof(float)) / cols;
  VALIDATE(room > 0, "scratch memory is too small for column sums over " + std::to_string(cols) + " columns");
  constexpr std::int64_t rows_per_part = 32, most_parts = 256;
  std::int64_t const parts =
      std::clamp<std::int64_t>((rows + rows_per_part - 1) / rows_per_part, 1, std::min(room, most_parts));
  auto* const partials = reinterpret_cast<float*>(scratch.data);
  declare_access(stream.native(), {writes(partials, parts * cols * sizeof(float)), writes(sums, cols * sizeof(float))});
  unsigned const block = block_for(cols);
  auto const column_blocks = static_cast<unsigned>((cols + block - 1) / block);
  launch(column_partials_kernel<Value>, dim3(column_blocks, static_cast<unsigned>(parts)), block, stream, value,
         partials, rows, cols);
  launch(column_totals_kernel<void>, dim3(column_blocks), block, stream, partials, sums, parts, cols, accumulate);
}

/// The elements of x[rows, cols] themselves, for sum_columns.
template <class T>
struct Element {
  T const* x;
  std::int64_t cols;
  __device__ float operator()(std::int64_t row, std::int64_t col) const { return to_float(x[row * cols + col]); }
};

}  // namespace shardbench
