#include <vector>

#include "kernels/conv/window_math.hpp"
#include "kernels/core/element.hpp"
#include "kernels/kernel_set_ref.hpp"

namespace shardbench::reference {
namespace {

/// Calls body(output row, tap, input row) for every tap that lies on the image, and with input row -1 off it.
template <class Body>
void each_tap(WindowShape const& window, Body const& body) {
  WindowSizes const s = sizes_of(window);
  for (std::int64_t oy = 0; oy < s.out_height; ++oy)
    for (std::int64_t ox = 0; ox < s.out_width; ++ox)
      for (std::int64_t n = 0; n < s.batch; ++n)
        for (std::int64_t tap = 0; tap < window.taps(); ++tap) {
          std::int64_t const y = s.input_of(oy, tap / s.kernel), x = s.input_of(ox, tap % s.kernel);
          body(s.out_row(oy, ox, n), tap, s.inside(y, x) ? s.row(y, x, n) : -1);
        }
}

}  // namespace

void im2col(Im2colArgs const& args) {
  std::int64_t const c = args.window.channels, width = args.window.taps() * c;
  each_tap(args.window, [&](std::int64_t out, std::int64_t tap, std::int64_t in) {
    for (std::int64_t i = 0; i < c; ++i)
      write_element(args.cols, args.dtype, out * width + tap * c + i,
                    in < 0 ? 0.0 : read_element(args.x, args.dtype, in * c + i));
  });
}

void col2im(Col2imArgs const& args) {
  std::int64_t const c = args.window.channels, width = args.window.taps() * c;
  std::vector<double> sums(args.window.rows() * c, 0.0);
  each_tap(args.window, [&](std::int64_t out, std::int64_t tap, std::int64_t in) {
    for (std::int64_t i = 0; i < c && in >= 0; ++i)
      sums[in * c + i] += read_element(args.cols, args.dtype, out * width + tap * c + i);
  });
  for (std::size_t i = 0; i < sums.size(); ++i)
    write_element(args.x, args.dtype, static_cast<std::int64_t>(i), sums[i]);
}

void depthwise_forward(DepthwiseForwardArgs const& args) {
  std::int64_t const c = args.window.channels;
  std::vector<double> sums(args.window.out_rows() * c, 0.0);
  each_tap(args.window, [&](std::int64_t out, std::int64_t tap, std::int64_t in) {
    for (std::int64_t i = 0; i < c && in >= 0; ++i)
      sums[out * c + i] +=
          read_element(args.x, args.dtype, in * c + i) * read_element(args.weight, args.dtype, tap * c + i);
  });
  for (std::size_t i = 0; i < sums.size(); ++i)
    write_element(args.y, args.dtype, static_cast<std::int64_t>(i), sums[i]);
}

void depthwise_backward(DepthwiseBackwardArgs const& args) {
  std::int64_t const c = args.window.channels;
  std::vector<double> dx(args.window.rows() * c, 0.0);
  std::vector<double> dw(args.window.taps() * c, 0.0);
  each_tap(args.window, [&](std::int64_t out, std::int64_t tap, std::int64_t in) {
    for (std::int64_t i = 0; i < c && in >= 0; ++i) {
      double const dy = read_element(args.dy, args.dtype, out * c + i);
      dx[in * c + i] += dy * read_element(args.weight, args.dtype, tap * c + i);
      dw[tap * c + i] += dy * read_element(args.x, args.dtype, in * c + i);
    }
  });
  for (std::size_t i = 0; i < dx.size(); ++i) write_element(args.dx, args.dtype, static_cast<std::int64_t>(i), dx[i]);
  for (std::size_t i = 0; i < dw.size(); ++i)
    args.dweight[i] = static_cast<float>(dw[i] + (args.accumulate ? static_cast<double>(args.dweight[i]) : 0.0));
}

}  // namespace shardbench::reference
