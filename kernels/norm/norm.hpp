#pragma once
#include <cstdint>

#include "kernels/core/binding.hpp"
#include "kernels/core/cost.hpp"
#include "kernels/core/device.hpp"

namespace shardbench {

enum class NormKind : std::uint8_t { layer_norm, rms_norm };

/// First element of vector `r` of rows that hold `heads` vectors of `cols` side by side.
SB_HOST_DEVICE inline std::int64_t vector_offset(std::int64_t r, std::int64_t heads, std::int64_t cols,
                                                 std::int64_t stride) {
  return heads == 1 ? r * stride : r / heads * stride + r % heads * cols;
}

/// `residual`: forward adds one first, backward takes the gradient of that sum.
struct NormShape {
  NormKind kind = NormKind::layer_norm;
  std::int64_t rows = 0, cols = 0;
  float eps = 0, weight_offset = 0;
  bool residual = false;
  std::int64_t heads = 1;  ///< vectors of `cols` in a row, each normed by itself
};

/// y = normalise(x + residual) * (weight + weight_offset) + bias over the last dim, statistics in fp32.
struct NormForwardArgs {
  using Shape = NormShape;
  /// 8 FLOPs an element (layer norm) or 5 (RMS norm), 1 more with a residual.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static NormForwardArgs bind(Shape const& shape, Binding const& binding);

  NormKind kind = NormKind::layer_norm;
  void const* x = nullptr;         ///< [rows, cols]
  void const* residual = nullptr;  ///< [rows, cols] or nullptr
  void* sum = nullptr;             ///< receives x + residual when residual is given
  void const* weight = nullptr;    ///< [cols]
  void const* bias = nullptr;      ///< [cols] or nullptr
  void* y = nullptr;               ///< [rows, cols]
  float* mean = nullptr;           ///< [rows], layer_norm only
  float* rstd = nullptr;           ///< [rows]
  std::int64_t rows = 0, cols = 0;
  std::int64_t x_stride = 0,
               y_stride = 0;  ///< elements between rows (per-head norms read a slice); residual and sum: cols
  std::int64_t heads = 1;     ///< vectors of `cols` side by side in a row, each normed by itself (then no residual);
                              ///< statistics are [rows, heads]
  float eps = 1e-5f;
  float weight_offset = 0;  ///< 1 for Gemma
  Dtype dtype = Dtype::f32;
};

/// dx = d(norm)/dx * dy (+ dsum); dweight and dbias (fp32, summed over rows) are written, or added to when
/// `accumulate`.
struct NormBackwardArgs {
  using Shape = NormShape;
  /// About twice the forward's FLOPs; dy and x read, dx written, dsum read too when the residual path brings one.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static NormBackwardArgs bind(Shape const& shape, Binding const& binding);

  NormKind kind = NormKind::layer_norm;
  void const* dy = nullptr;  ///< [rows, cols]
  void const* x = nullptr;   ///< the normalised input (x, or sum when a residual was added)
  void const* weight = nullptr;
  float const* mean = nullptr;
  float const* rstd = nullptr;
  void const* dsum = nullptr;  ///< gradient arriving at the sum by the residual path, or nullptr; may equal dx
  void* dx = nullptr;
  float* dweight = nullptr;  ///< [cols] or nullptr (then dbias is left too)
  float* dbias = nullptr;    ///< [cols] or nullptr
  std::int64_t rows = 0, cols = 0;
  std::int64_t x_stride = 0, y_stride = 0;  ///< rows of x, dsum and dx; rows of dy
  std::int64_t heads = 1;                   ///< as in the forward pass
  float weight_offset = 0;
  bool accumulate = false;
  Dtype dtype = Dtype::f32;
};

}  // namespace shardbench
