#include <algorithm>

#include "kernels/conv/window_host.hpp"
#include "kernels/core/row_host.hpp"
#include "kernels/core/storage.hpp"
#include "kernels/kernel_set_host.hpp"

namespace shardbench::host {
namespace {

/// Output rows whose products are summed in fp32 before they join the total.
constexpr std::int64_t rows_per_partial_sum = 64;

template <class T>
void gather(WindowSizes const& s, T const* image, T* cols) {
  std::int64_t const c = s.channels;
  for (std::int64_t oy = 0; oy < s.out_height; ++oy)
    for (std::int64_t ox = 0; ox < s.out_width; ++ox)
      for (std::int64_t n = 0; n < s.batch; ++n)
        for (std::int64_t ky = 0; ky < s.kernel; ++ky) {
          std::int64_t const y = s.input_of(oy, ky);
          for (std::int64_t kx = 0; kx < s.kernel; ++kx, cols += c) {
            std::int64_t const x = s.input_of(ox, kx);
            if (s.inside(y, x))
              std::copy_n(image + s.row(y, x, n) * c, c, cols);
            else
              std::fill_n(cols, c, T{});
          }
        }
}

template <class T>
void depthwise_dx(WindowSizes const& s, DepthwiseBackwardArgs const& args, float* sums) {
  std::int64_t const c = s.channels;
  auto const* const dy = static_cast<T const*>(args.dy);
  auto const* const weight = static_cast<T const*>(args.weight);
  each_row(s.height, s.width, s.batch, [&](std::int64_t y, std::int64_t x, std::int64_t n) {
    std::fill_n(sums, c, 0.0f);
    each_reader(s, y, x, n, [&](std::int64_t tap, std::int64_t out) {
      T const *const d = dy + out * c, *const w = weight + tap * c;
#pragma omp simd
      for (std::int64_t i = 0; i < c; ++i) sums[i] += to_float(d[i]) * to_float(w[i]);
    });
    store_row(sums, static_cast<T*>(args.dx) + s.row(y, x, n) * c, c);
  });
}

template <class T>
void depthwise_dweight(WindowSizes const& s, DepthwiseBackwardArgs const& args, float* sums) {
  std::int64_t const c = s.channels, count = args.window.taps() * c, rows = args.window.out_rows();
  auto const* const dy = static_cast<T const*>(args.dy);
  auto const* const image = static_cast<T const*>(args.x);
  if (!args.accumulate) std::fill_n(args.dweight, count, 0.0f);
  for (std::int64_t first = 0; first < rows; first += rows_per_partial_sum) {
    std::fill_n(sums, count, 0.0f);
    for (std::int64_t out = first; out < std::min(rows, first + rows_per_partial_sum); ++out)
      each_seen(s, out, [&](std::int64_t tap, std::int64_t in) {
        T const *const d = dy + out * c, *const v = image + in * c;
        float* const sum = sums + tap * c;
#pragma omp simd
        for (std::int64_t i = 0; i < c; ++i) sum[i] += to_float(d[i]) * to_float(v[i]);
      });
    for (std::int64_t i = 0; i < count; ++i) args.dweight[i] += sums[i];
  }
}

}  // namespace

void im2col(Im2colArgs const& args) {
  with_storage(args.dtype, "im2col", [&]<class T>(T) {
    gather(sizes_of(args.window), static_cast<T const*>(args.x), static_cast<T*>(args.cols));
  });
}

void col2im(Col2imArgs const& args) {
  thread_local Workspace workspace;
  WindowSizes const s = sizes_of(args.window);
  std::int64_t const c = s.channels, width = args.window.taps() * c;
  float* const sums = workspace.floats(c);
  with_storage(args.dtype, "col2im", [&]<class T>(T) {
    auto const* const cols = static_cast<T const*>(args.cols);
    each_row(s.height, s.width, s.batch, [&](std::int64_t y, std::int64_t x, std::int64_t n) {
      std::fill_n(sums, c, 0.0f);
      each_reader(s, y, x, n, [&](std::int64_t tap, std::int64_t out) {
        T const* const from = cols + out * width + tap * c;
#pragma omp simd
        for (std::int64_t i = 0; i < c; ++i) sums[i] += to_float(from[i]);
      });
      store_row(sums, static_cast<T*>(args.x) + s.row(y, x, n) * c, c);
    });
  });
}

void depthwise_forward(DepthwiseForwardArgs const& args) {
  thread_local Workspace workspace;
  WindowSizes const s = sizes_of(args.window);
  std::int64_t const c = s.channels;
  float* const sums = workspace.floats(c);
  with_storage(args.dtype, "depthwise convolution", [&]<class T>(T) {
    auto const* const image = static_cast<T const*>(args.x);
    auto const* const weight = static_cast<T const*>(args.weight);
    for (std::int64_t out = 0; out < args.window.out_rows(); ++out) {
      std::fill_n(sums, c, 0.0f);
      each_seen(s, out, [&](std::int64_t tap, std::int64_t in) {
        T const *const v = image + in * c, *const w = weight + tap * c;
#pragma omp simd
        for (std::int64_t i = 0; i < c; ++i) sums[i] += to_float(v[i]) * to_float(w[i]);
      });
      store_row(sums, static_cast<T*>(args.y) + out * c, c);
    }
  });
}

void depthwise_backward(DepthwiseBackwardArgs const& args) {
  thread_local Workspace workspace;
  WindowSizes const s = sizes_of(args.window);
  float* const sums = workspace.floats(args.window.taps() * s.channels);
  with_storage(args.dtype, "depthwise convolution", [&]<class T>(T) {
    depthwise_dx<T>(s, args, sums);
    depthwise_dweight<T>(s, args, sums);
  });
}

}  // namespace shardbench::host
