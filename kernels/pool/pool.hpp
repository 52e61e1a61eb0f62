#pragma once
#include <cstdint>

#include "kernels/conv/conv.hpp"

namespace shardbench {

/// y = the largest x under the window, and which tap it was (the first of equals). Off the image there is nothing.
struct MaxPoolForwardArgs {
  WindowShape window;
  void const* x = nullptr;       ///< [rows, channels]
  void* y = nullptr;             ///< [out_rows, channels]
  std::uint8_t* taps = nullptr;  ///< [out_rows, channels]
  Dtype dtype = Dtype::f32;
};

/// dx = sum of dy over the windows whose largest element x was.
struct MaxPoolBackwardArgs {
  WindowShape window;
  void const* dy = nullptr;
  std::uint8_t const* taps = nullptr;
  void* dx = nullptr;
  Dtype dtype = Dtype::f32;
};

/// Each element of an image repeated `factor` times both ways; rows are (y, x, sample).
struct UpsampleForwardArgs {
  std::int64_t height = 0, width = 0, batch = 0, channels = 0, factor = 2;
  void const* x = nullptr;
  void* y = nullptr;
  Dtype dtype = Dtype::f32;
};

/// dx = sum over the copies.
struct UpsampleBackwardArgs {
  std::int64_t height = 0, width = 0, batch = 0, channels = 0, factor = 2;
  void const* dy = nullptr;
  void* dx = nullptr;
  Dtype dtype = Dtype::f32;
};

/// y[batch, cols] = scale * sum of the rows of x[seq, batch, cols] at positions [begin, end): the class token, or a
/// mean.
struct PoolRowsForwardArgs {
  std::int64_t seq = 0, batch = 0, cols = 0, begin = 0, end = 0;
  float scale = 1;
  void const* x = nullptr;
  void* y = nullptr;
  Dtype dtype = Dtype::f32;
};

/// dx = scale * dy at positions [begin, end), zero elsewhere.
struct PoolRowsBackwardArgs {
  std::int64_t seq = 0, batch = 0, cols = 0, begin = 0, end = 0;
  float scale = 1;
  void const* dy = nullptr;
  void* dx = nullptr;
  Dtype dtype = Dtype::f32;
};

}  // namespace shardbench
