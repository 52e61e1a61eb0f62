#include <algorithm>
#include <cstring>

#include "kernels/core/row_host.hpp"
#include "kernels/core/storage.hpp"
#include "kernels/kernel_set_host.hpp"

namespace shardbench::host {
namespace {

/// fp32 sums stay this short; their totals are added in double or block by block.
constexpr std::int64_t elements_per_partial_sum = 4096;
constexpr std::int64_t rows_per_partial_sum = 64;

template <class T>
void add_rows(T const* x, std::int64_t rows, std::int64_t cols, float* sums) {
  for (std::int64_t r = 0; r < rows; ++r) {
#pragma omp simd
    for (std::int64_t c = 0; c < cols; ++c) sums[c] += to_float(x[r * cols + c]);
  }
}

template <class From, class To>
void convert_rows(CopyBlockArgs const& args) {
  for (std::int64_t r = 0; r < args.rows; ++r) {
    From const* const from = static_cast<From const*>(args.from) + r * args.from_stride;
    To* const to = static_cast<To*>(args.to) + r * args.to_stride;
    for (std::int64_t c = 0; c < args.cols; ++c) to[c] = from_float<To>(args.scale * to_float(from[c]));
  }
}

void copy_rows(CopyBlockArgs const& args) {
  auto const size = static_cast<std::int64_t>(bytes_of(args.from_dtype));
  auto const* const from = static_cast<std::byte const*>(args.from);
  auto* const to = static_cast<std::byte*>(args.to);
  bool const dense = args.from_stride == args.cols && args.to_stride == args.cols;
  std::int64_t const rows = dense ? 1 : args.rows, cols = dense ? args.rows * args.cols : args.cols;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::memcpy(to + r * args.to_stride * size, from + r * args.from_stride * size, cols * size);
  }
}

}  // namespace

void add(AddArgs const& args) {
  with_storage(args.dtype, "add", [&]<class T>(T) {
    auto const* const a = static_cast<T const*>(args.a);
    auto const* const b = static_cast<T const*>(args.b);
    auto* const out = static_cast<T*>(args.out);
#pragma omp simd
    for (std::int64_t i = 0; i < args.count; ++i) {
      out[i] = from_float<T>(to_float(a[i]) + to_float(b[i]) * args.scale);
    }
  });
}

void column_sum(ColumnSumArgs const& args) {
  thread_local Workspace workspace;
  with_storage(args.dtype, "column sum", [&]<class T>(T) {
    float* const partial = workspace.floats(args.cols);
    if (!args.accumulate) std::fill_n(args.sums, args.cols, 0.0f);
    for (std::int64_t r = 0; r < args.rows; r += rows_per_partial_sum) {
      std::fill_n(partial, args.cols, 0.0f);
      add_rows(static_cast<T const*>(args.x) + r * args.cols, std::min(rows_per_partial_sum, args.rows - r), args.cols,
               partial);
      for (std::int64_t c = 0; c < args.cols; ++c) args.sums[c] += partial[c];
    }
  });
}

void copy_block(CopyBlockArgs const& args) {
  if (args.rows == 0 || args.cols == 0) return;
  if (args.from_dtype == args.to_dtype && args.scale == 1) {
    copy_rows(args);
    return;
  }
  with_storage(args.from_dtype, "a converting copy", [&]<class From>(From) {
    with_storage(args.to_dtype, "a converting copy", [&]<class To>(To) { convert_rows<From, To>(args); });
  });
}

void square_sum(SquareSumArgs const& args) {
  double total = args.accumulate ? static_cast<double>(args.out[0]) : 0.0;
  with_storage(args.dtype, "square sum", [&]<class T>(T) {
    for (std::int64_t first = 0; first < args.count; first += elements_per_partial_sum) {
      T const* const x = static_cast<T const*>(args.x) + first;
      total += static_cast<double>(sum_row(std::min(elements_per_partial_sum, args.count - first),
                                           [&](std::int64_t i) { return to_float(x[i]) * to_float(x[i]); }));
    }
  });
  args.out[0] = static_cast<float>(total);
}

}  // namespace shardbench::host
