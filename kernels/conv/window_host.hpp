#pragma once
// Loops over windows, for the host kernels.
#include "kernels/conv/window_math.hpp"

namespace shardbench::host {

/// Calls body(tap, output row) for every output position that sees input (y, x) of a sample.
template <class Body>
void each_reader(WindowSizes const& s, std::int64_t y, std::int64_t x, std::int64_t sample, Body const& body) {
  for (std::int64_t ky = 0; ky < s.kernel; ++ky) {
    std::int64_t const oy = s.output_of(y, ky, s.out_height);
    if (oy < 0) continue;
    for (std::int64_t kx = 0; kx < s.kernel; ++kx) {
      std::int64_t const ox = s.output_of(x, kx, s.out_width);
      if (ox >= 0) body(ky * s.kernel + kx, s.out_row(oy, ox, sample));
    }
  }
}

/// Calls body(y, x, sample) for every row of an image.
template <class Body>
void each_row(std::int64_t height, std::int64_t width, std::int64_t batch, Body const& body) {
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x)
      for (std::int64_t n = 0; n < batch; ++n) body(y, x, n);
}

/// Calls body(tap, input row) for every tap of an output row that lies on the image.
template <class Body>
void each_seen(WindowSizes const& s, std::int64_t out, Body const& body) {
  std::int64_t const n = out % s.batch, at = out / s.batch, ox = at % s.out_width, oy = at / s.out_width;
  for (std::int64_t tap = 0; tap < s.kernel * s.kernel; ++tap) {
    std::int64_t const y = s.input_of(oy, tap / s.kernel), x = s.input_of(ox, tap % s.kernel);
    if (s.inside(y, x)) body(tap, s.row(y, x, n));
  }
}

}  // namespace shardbench::host
