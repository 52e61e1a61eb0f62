#include <algorithm>
#include <limits>

#include "kernels/conv/window_host.hpp"
#include "kernels/core/row_host.hpp"
#include "kernels/core/storage.hpp"
#include "kernels/kernel_set_host.hpp"
#include "kernels/pool/pool.hpp"

namespace shardbench::host {
namespace {

template <class T>
void take_larger(T const* x, float* best, std::uint8_t* taps, std::uint8_t tap, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    float const value = to_float(x[i]);
    bool const larger = value > best[i];
    best[i] = larger ? value : best[i];
    taps[i] = larger ? tap : taps[i];
  }
}

}  // namespace

void max_pool_forward(MaxPoolForwardArgs const& args) {
  thread_local Workspace workspace;
  WindowSizes const s = sizes_of(args.window);
  std::int64_t const c = s.channels;
  float* const best = workspace.floats(c);
  with_storage(args.dtype, "max pool", [&]<class T>(T) {
    for (std::int64_t row = 0; row < args.window.out_rows(); ++row) {
      std::int64_t const out = row * c;
      std::fill_n(best, c, -std::numeric_limits<float>::infinity());
      std::fill_n(args.taps + out, c, std::uint8_t{0});
      each_seen(s, row, [&](std::int64_t tap, std::int64_t in) {
        take_larger(static_cast<T const*>(args.x) + in * c, best, args.taps + out, static_cast<std::uint8_t>(tap), c);
      });
      store_row(best, static_cast<T*>(args.y) + out, c);
    }
  });
}

void max_pool_backward(MaxPoolBackwardArgs const& args) {
  thread_local Workspace workspace;
  WindowSizes const s = sizes_of(args.window);
  std::int64_t const c = s.channels;
  float* const sums = workspace.floats(c);
  with_storage(args.dtype, "max pool", [&]<class T>(T) {
    auto const* const dy = static_cast<T const*>(args.dy);
    each_row(s.height, s.width, s.batch, [&](std::int64_t y, std::int64_t x, std::int64_t n) {
      std::fill_n(sums, c, 0.0f);
      each_reader(s, y, x, n, [&](std::int64_t tap, std::int64_t row) {
        std::int64_t const out = row * c;
        for (std::int64_t i = 0; i < c; ++i) sums[i] += args.taps[out + i] == tap ? to_float(dy[out + i]) : 0.0f;
      });
      store_row(sums, static_cast<T*>(args.dx) + s.row(y, x, n) * c, c);
    });
  });
}

void upsample_forward(UpsampleForwardArgs const& a) {
  with_storage(a.dtype, "upsample", [&]<class T>(T) {
    T* y = static_cast<T*>(a.y);
    each_row(a.height * a.factor, a.width * a.factor, a.batch, [&](std::int64_t row, std::int64_t col, std::int64_t n) {
      std::int64_t const from = (row / a.factor * a.width + col / a.factor) * a.batch + n;
      y = std::copy_n(static_cast<T const*>(a.x) + from * a.channels, a.channels, y);
    });
  });
}

void upsample_backward(UpsampleBackwardArgs const& a) {
  thread_local Workspace workspace;
  float* const sums = workspace.floats(a.channels);
  with_storage(a.dtype, "upsample", [&]<class T>(T) {
    T* dx = static_cast<T*>(a.dx);
    each_row(a.height, a.width, a.batch, [&](std::int64_t row, std::int64_t col, std::int64_t n) {
      std::fill_n(sums, a.channels, 0.0f);
      for (std::int64_t copy = 0; copy < a.factor * a.factor; ++copy) {
        std::int64_t const y = row * a.factor + copy / a.factor, x = col * a.factor + copy % a.factor;
        T const* const dy = static_cast<T const*>(a.dy) + ((y * a.width * a.factor + x) * a.batch + n) * a.channels;
#pragma omp simd
        for (std::int64_t i = 0; i < a.channels; ++i) sums[i] += to_float(dy[i]);
      }
      store_row(sums, dx, a.channels);
      dx += a.channels;
    });
  });
}

void pool_rows_forward(PoolRowsForwardArgs const& a) {
  thread_local Workspace workspace;
  std::int64_t const count = a.batch * a.cols;
  float* const sums = workspace.floats(count);
  with_storage(a.dtype, "row pool", [&]<class T>(T) {
    std::fill_n(sums, count, 0.0f);
    for (std::int64_t s = a.begin; s < a.end; ++s) {
      T const* const x = static_cast<T const*>(a.x) + s * count;
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) sums[i] += a.scale * to_float(x[i]);
    }
    store_row(sums, static_cast<T*>(a.y), count);
  });
}

void pool_rows_backward(PoolRowsBackwardArgs const& a) {
  std::int64_t const count = a.batch * a.cols;
  with_storage(a.dtype, "row pool", [&]<class T>(T) {
    auto const* const dy = static_cast<T const*>(a.dy);
    for (std::int64_t s = 0; s < a.seq; ++s) {
      T* const dx = static_cast<T*>(a.dx) + s * count;
      bool const taken = s >= a.begin && s < a.end;
      for (std::int64_t i = 0; i < count; ++i) dx[i] = taken ? from_float<T>(a.scale * to_float(dy[i])) : T{};
    }
  });
}

}  // namespace shardbench::host
