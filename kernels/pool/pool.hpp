#pragma once
#include <cstdint>

#include "kernels/conv/conv.hpp"

namespace shardbench {

/// y = the largest x under the window, and which tap it was (the first of equals). Off the image there is nothing.
struct MaxPoolForwardArgs {
  using Shape = WindowShape;
  /// A comparison a tap and output element; the tap is kept in a byte.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static MaxPoolForwardArgs bind(Shape const& shape, Binding const& binding);

  WindowShape window;
  void const* x = nullptr;       ///< [rows, channels]
  void* y = nullptr;             ///< [out_rows, channels]
  std::uint8_t* taps = nullptr;  ///< [out_rows, channels]
  Dtype dtype = Dtype::f32;
};

/// dx = sum of dy over the windows whose largest element x was.
struct MaxPoolBackwardArgs {
  using Shape = WindowShape;
  /// One addition an output element.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static MaxPoolBackwardArgs bind(Shape const& shape, Binding const& binding);

  WindowShape window;
  void const* dy = nullptr;
  std::uint8_t const* taps = nullptr;
  void* dx = nullptr;
  Dtype dtype = Dtype::f32;
};

/// An image, and how often each element is repeated either way.
struct UpsampleShape {
  std::int64_t height = 0, width = 0, batch = 0, channels = 0, factor = 2;
};

/// Each element of an image repeated `factor` times both ways; rows are (y, x, sample).
struct UpsampleForwardArgs {
  using Shape = UpsampleShape;
  /// No FLOPs; both images touched once.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static UpsampleForwardArgs bind(Shape const& shape, Binding const& binding);

  std::int64_t height = 0, width = 0, batch = 0, channels = 0, factor = 2;
  void const* x = nullptr;
  void* y = nullptr;
  Dtype dtype = Dtype::f32;
};

/// dx = sum over the copies.
struct UpsampleBackwardArgs {
  using Shape = UpsampleShape;
  /// One addition an element of the large image; both touched once.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static UpsampleBackwardArgs bind(Shape const& shape, Binding const& binding);

  std::int64_t height = 0, width = 0, batch = 0, channels = 0, factor = 2;
  void const* dy = nullptr;
  void* dx = nullptr;
  Dtype dtype = Dtype::f32;
};

/// Rows [begin, end) of `seq` positions, summed and scaled.
struct PoolRowsShape {
  std::int64_t seq = 0, batch = 0, cols = 0, begin = 0, end = 0;
  float scale = 1;
};

/// y[batch, cols] = scale * sum of the rows of x[seq, batch, cols] at positions [begin, end): the class token, or a
/// mean.
struct PoolRowsForwardArgs {
  using Shape = PoolRowsShape;
  /// 2 FLOPs an element of the pooled rows.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static PoolRowsForwardArgs bind(Shape const& shape, Binding const& binding);

  std::int64_t seq = 0, batch = 0, cols = 0, begin = 0, end = 0;
  float scale = 1;
  void const* x = nullptr;
  void* y = nullptr;
  Dtype dtype = Dtype::f32;
};

/// dx = scale * dy at positions [begin, end), zero elsewhere.
struct PoolRowsBackwardArgs {
  using Shape = PoolRowsShape;
  /// 1 FLOP an element of the pooled rows; all of dx is written.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static PoolRowsBackwardArgs bind(Shape const& shape, Binding const& binding);

  std::int64_t seq = 0, batch = 0, cols = 0, begin = 0, end = 0;
  float scale = 1;
  void const* dy = nullptr;
  void* dx = nullptr;
  Dtype dtype = Dtype::f32;
};

}  // namespace shardbench
