#include "kernels/elementwise/elementwise.hpp"

namespace shardbench {
namespace {

OpCost copy_cost(BlockShape const& s, Dtype from, Dtype to) {
  return {0, (width_of(from) + width_of(to)) * elements_of(s.rows, s.cols)};
}

}  // namespace

OpCost AddArgs::cost(BlockShape const& s, CostContext const& context) {
  double const count = static_cast<double>(s.rows * s.cols);
  return {2 * count, 3 * width_of(context.precision) * count};
}

AddArgs AddArgs::bind(BlockShape const& s, Binding const& b) {
  return {b.in(0).data, b.in(1).data, b.out(0).data, s.rows * s.cols, s.scale, b.out(0).dtype};
}

OpCost ColumnSumArgs::cost(BlockShape const& s, CostContext const& context) {
  double const elements = elements_of(s.rows, s.cols);
  return {elements, width_of(context.precision) * elements + fp32_bytes * static_cast<double>(s.cols)};
}

ColumnSumArgs ColumnSumArgs::bind(BlockShape const& s, Binding const& b) {
  return {b.in(0).data, b.out(0).as<float>(), s.rows, s.cols, b.adds, b.in(0).dtype};
}

OpCost CopyBlockArgs::cost(BlockShape const& s, CostContext const& context) {
  return copy_cost(s, context.input, context.output);
}

CopyBlockArgs CopyBlockArgs::bind(BlockShape const& s, Binding const& b) {
  return {b.in(0).data,  b.out(0).data,  s.rows, s.cols, b.in(0).row_stride(s.cols), b.out(0).row_stride(s.cols),
          b.in(0).dtype, b.out(0).dtype, s.scale};
}

AddArgs CopyBlockArgs::bind_addition(BlockShape const& s, Binding const& b) {
  return {b.out(0).data, b.in(0).data, b.out(0).data, s.rows * s.cols, 1, b.out(0).dtype};
}

OpCost SquareSumArgs::cost(BlockShape const& s, CostContext const& context) {
  double const count = static_cast<double>(s.cols);
  return {2 * count, width_of(context.input) * count};
}

SquareSumArgs SquareSumArgs::bind(BlockShape const& s, Binding const& b) {
  return {b.in(0).data, b.out(0).as<float>(), s.cols, b.adds, b.in(0).dtype};
}

OpCost CacheAppend::cost(BlockShape const& s, CostContext const& context) {
  return copy_cost(s, context.precision, context.precision);
}

CopyBlockArgs CacheAppend::bind(BlockShape const& s, Binding const& b) {
  Operand const& cache = b.out(0);
  std::int64_t const held =
      b.position * b.micro_batch * cache.stride * static_cast<std::int64_t>(bytes_of(cache.dtype));
  return {
      b.in(0).data, cache.as<std::byte>() + held, s.rows, s.cols, b.in(0).row_stride(s.cols), cache.stride, b.precision,
      b.precision};
}

}  // namespace shardbench
