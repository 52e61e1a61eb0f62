#pragma once
#include <cstdint>

#include "kernels/core/binding.hpp"
#include "kernels/core/cost.hpp"
#include "kernels/core/device.hpp"

namespace shardbench {

/// A square window sliding over images. Rows of an image tensor are (y, x, sample), y outermost; columns are channels.
struct WindowShape {
  std::int64_t height = 0, width = 0, batch = 0, channels = 0;
  std::int64_t kernel = 1, stride = 1, padding = 0;

  std::int64_t out_height() const { return (height + 2 * padding - kernel) / stride + 1; }
  std::int64_t out_width() const { return (width + 2 * padding - kernel) / stride + 1; }
  std::int64_t rows() const { return height * width * batch; }
  std::int64_t out_rows() const { return out_height() * out_width() * batch; }
  std::int64_t taps() const { return kernel * kernel; }
  std::int64_t in_elements() const { return rows() * channels; }
  std::int64_t out_elements() const { return out_rows() * channels; }
};

/// cols[out_rows, taps * channels] = what the window at each output position sees, tap by tap; zeros off the image.
/// With stride = kernel this cuts an image into patches.
struct Im2colArgs {
  using Shape = WindowShape;
  /// No FLOPs: the image read, its columns written.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static Im2colArgs bind(Shape const& shape, Binding const& binding);

  WindowShape window;
  void const* x = nullptr;  ///< [rows, channels]
  void* cols = nullptr;
  Dtype dtype = Dtype::f32;
};

/// The transpose of im2col: each element of x is the sum of its copies in cols.
struct Col2imArgs {
  using Shape = WindowShape;
  /// One addition a column element.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static Col2imArgs bind(Shape const& shape, Binding const& binding);

  WindowShape window;
  void const* cols = nullptr;  ///< [out_rows, taps * channels]
  void* x = nullptr;           ///< [rows, channels], overwritten
  Dtype dtype = Dtype::f32;
};

/// Convolution of each channel with a kernel of its own: y[.., c] = sum over taps of x[.., c] * weight[tap, c].
struct DepthwiseForwardArgs {
  using Shape = WindowShape;
  /// 2 FLOPs a tap and output element, which are the model's.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static DepthwiseForwardArgs bind(Shape const& shape, Binding const& binding);

  WindowShape window;
  void const* x = nullptr;       ///< [rows, channels]
  void const* weight = nullptr;  ///< [taps, channels]
  void* y = nullptr;             ///< [out_rows, channels]
  Dtype dtype = Dtype::f32;
};

/// dx, and dweight (fp32) written or added to when `accumulate`.
struct DepthwiseBackwardArgs {
  using Shape = WindowShape;
  /// Input and weight gradient: 4 FLOPs a tap and output element; dy and x read, dx written.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static DepthwiseBackwardArgs bind(Shape const& shape, Binding const& binding);

  WindowShape window;
  void const* dy = nullptr;  ///< [out_rows, channels]
  void const* x = nullptr;
  void const* weight = nullptr;
  void* dx = nullptr;        ///< [rows, channels]
  float* dweight = nullptr;  ///< [taps, channels]
  bool accumulate = false;
  Dtype dtype = Dtype::f32;
};

}  // namespace shardbench
