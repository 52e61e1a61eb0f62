#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/core/binding.hpp"
#include "kernels/core/cost.hpp"
#include "kernels/core/device.hpp"

namespace shardbench {

/// A block of elements, and a factor where the op takes one.
struct BlockShape {
  std::int64_t rows = 0, cols = 0;
  float scale = 1;
};

/// out = a + b * scale; out may be a or b.
struct AddArgs {
  using Shape = BlockShape;
  /// Two reads and a write an element.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static AddArgs bind(Shape const& shape, Binding const& binding);

  void const* a = nullptr;
  void const* b = nullptr;
  void* out = nullptr;
  std::int64_t count = 0;
  float scale = 1;
  Dtype dtype = Dtype::f32;
};

/// sums[n] (fp32) = column sums of x[rows, cols]; added to when `accumulate`. Rows are summed in a fixed order.
struct ColumnSumArgs {
  using Shape = BlockShape;
  /// One read an element.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static ColumnSumArgs bind(Shape const& shape, Binding const& binding);

  void const* x = nullptr;
  float* sums = nullptr;
  std::int64_t rows = 0, cols = 0;
  bool accumulate = false;
  Dtype dtype = Dtype::f32;
};

/// Copies a block of `rows` x `cols` elements between two row strides, times `scale` (floats only, unless it is 1),
/// converting dtype: packing, slicing, casting.
struct CopyBlockArgs {
  using Shape = BlockShape;
  /// No FLOPs: a read and a write an element.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static CopyBlockArgs bind(Shape const& shape, Binding const& binding);
  /// Of a block that adds to what is there: an addition, whose operands are dense.
  static AddArgs bind_addition(Shape const& shape, Binding const& binding);

  void const* from = nullptr;
  void* to = nullptr;
  std::int64_t rows = 0, cols = 0, from_stride = 0, to_stride = 0;
  Dtype from_dtype = Dtype::f32;
  Dtype to_dtype = Dtype::f32;
  float scale = 1;
};

/// out[0] (fp32) = sum of squares of x; added to when `accumulate` (gradient norms).
struct SquareSumArgs {
  using Shape = BlockShape;
  /// One read and 2 FLOPs an element.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static SquareSumArgs bind(Shape const& shape, Binding const& binding);

  void const* x = nullptr;
  float* out = nullptr;
  std::int64_t count = 0;
  bool accumulate = false;
  Dtype dtype = Dtype::f32;
};

/// A block appended to a KV cache behind the tokens that it holds: a copy_block whose place the step decides.
struct CacheAppend {
  using Shape = BlockShape;
  /// As copy_block.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static CopyBlockArgs bind(Shape const& shape, Binding const& binding);
};

}  // namespace shardbench
