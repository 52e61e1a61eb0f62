#pragma once
#include "kernels/conv/conv.hpp"

namespace shardbench {

/// Sizes of a window with its output, for kernels: plain numbers, no host functions.
struct WindowSizes {
  std::int64_t height, width, batch, channels, kernel, stride, padding, out_height, out_width;

  /// The row or column of the input that a tap sees from an output position; negative or too large off the image.
  SB_HOST_DEVICE std::int64_t input_of(std::int64_t out, std::int64_t tap) const {
    return out * stride + tap - padding;
  }
  /// The output position (of `outputs`) whose tap sees input `in`; -1 when there is none.
  SB_HOST_DEVICE std::int64_t output_of(std::int64_t in, std::int64_t tap, std::int64_t outputs) const {
    std::int64_t const scaled = in + padding - tap;
    if (scaled < 0 || scaled % stride != 0 || scaled / stride >= outputs) return -1;
    return scaled / stride;
  }
  SB_HOST_DEVICE bool inside(std::int64_t y, std::int64_t x) const {
    return y >= 0 && y < height && x >= 0 && x < width;
  }
  SB_HOST_DEVICE std::int64_t row(std::int64_t y, std::int64_t x, std::int64_t sample) const {
    return (y * width + x) * batch + sample;
  }
  SB_HOST_DEVICE std::int64_t out_row(std::int64_t y, std::int64_t x, std::int64_t sample) const {
    return (y * out_width + x) * batch + sample;
  }
};

inline WindowSizes sizes_of(WindowShape const& w) {
  return {w.height, w.width, w.batch, w.channels, w.kernel, w.stride, w.padding, w.out_height(), w.out_width()};
}

}  // namespace shardbench
