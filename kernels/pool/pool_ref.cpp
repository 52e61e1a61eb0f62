#include <limits>
#include <vector>

#include "kernels/conv/window_math.hpp"
#include "kernels/core/element.hpp"
#include "kernels/kernel_set_ref.hpp"
#include "kernels/pool/pool.hpp"

namespace shardbench::reference {
namespace {

/// Row of the image that a tap sees from an output row; -1 off the image.
std::int64_t seen_row(WindowSizes const& s, std::int64_t out, std::int64_t tap) {
  std::int64_t const n = out % s.batch, at = out / s.batch;
  std::int64_t const y = s.input_of(at / s.out_width, tap / s.kernel), x = s.input_of(at % s.out_width, tap % s.kernel);
  return s.inside(y, x) ? s.row(y, x, n) : -1;
}

template <class Args>
std::int64_t small_row(Args const& a, std::int64_t row) {
  std::int64_t const n = row % a.batch, at = row / a.batch, wide = a.width * a.factor;
  return (at / wide / a.factor * a.width + at % wide / a.factor) * a.batch + n;
}

}  // namespace

void max_pool_forward(MaxPoolForwardArgs const& args) {
  WindowSizes const s = sizes_of(args.window);
  for (std::int64_t i = 0; i < args.window.out_rows() * s.channels; ++i) {
    std::int64_t const row = i / s.channels, c = i % s.channels;
    double best = -std::numeric_limits<double>::infinity();
    args.taps[i] = 0;
    for (std::int64_t tap = 0; tap < args.window.taps(); ++tap) {
      std::int64_t const in = seen_row(s, row, tap);
      if (in < 0) continue;
      double const value = read_element(args.x, args.dtype, in * s.channels + c);
      if (value > best) best = value, args.taps[i] = static_cast<std::uint8_t>(tap);
    }
    write_element(args.y, args.dtype, i, best);
  }
}

void max_pool_backward(MaxPoolBackwardArgs const& args) {
  WindowSizes const s = sizes_of(args.window);
  std::vector<double> dx(args.window.rows() * s.channels, 0.0);
  for (std::int64_t i = 0; i < args.window.out_rows() * s.channels; ++i)
    dx[seen_row(s, i / s.channels, args.taps[i]) * s.channels + i % s.channels] += read_element(args.dy, args.dtype, i);
  for (std::size_t i = 0; i < dx.size(); ++i) write_element(args.dx, args.dtype, static_cast<std::int64_t>(i), dx[i]);
}

void upsample_forward(UpsampleForwardArgs const& a) {
  for (std::int64_t row = 0; row < a.height * a.width * a.factor * a.factor * a.batch; ++row)
    for (std::int64_t c = 0; c < a.channels; ++c)
      write_element(a.y, a.dtype, row * a.channels + c, read_element(a.x, a.dtype, small_row(a, row) * a.channels + c));
}

void upsample_backward(UpsampleBackwardArgs const& a) {
  std::vector<double> dx(a.height * a.width * a.batch * a.channels, 0.0);
  for (std::int64_t row = 0; row < a.height * a.width * a.factor * a.factor * a.batch; ++row)
    for (std::int64_t c = 0; c < a.channels; ++c)
      dx[small_row(a, row) * a.channels + c] += read_element(a.dy, a.dtype, row * a.channels + c);
  for (std::size_t i = 0; i < dx.size(); ++i) write_element(a.dx, a.dtype, static_cast<std::int64_t>(i), dx[i]);
}

void pool_rows_forward(PoolRowsForwardArgs const& a) {
  for (std::int64_t i = 0; i < a.batch * a.cols; ++i) {
    double sum = 0;
    for (std::int64_t s = a.begin; s < a.end; ++s) sum += read_element(a.x, a.dtype, s * a.batch * a.cols + i);
    write_element(a.y, a.dtype, i, static_cast<double>(a.scale) * sum);
  }
}

void pool_rows_backward(PoolRowsBackwardArgs const& a) {
  for (std::int64_t s = 0; s < a.seq; ++s)
    for (std::int64_t i = 0; i < a.batch * a.cols; ++i)
      write_element(a.dx, a.dtype, s * a.batch * a.cols + i,
                    s >= a.begin && s < a.end ? static_cast<double>(a.scale) * read_element(a.dy, a.dtype, i) : 0.0);
}

}  // namespace shardbench::reference
