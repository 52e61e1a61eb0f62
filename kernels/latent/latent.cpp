#include "kernels/latent/latent.hpp"

namespace shardbench {
namespace {

double moved_bytes(LatentKeysShape const& s, CostContext const& context) {
  double const keys = static_cast<double>(s.rows * s.heads * (s.plain_dim + s.rotary_dim)),
               parts = static_cast<double>(s.rows * (s.heads * s.plain_dim + s.rotary_dim));
  return (keys + parts) * width_of(context.precision);
}

LatentKeyShape bound_shape(LatentKeysShape const& s, Operand const& plain, Operand const& rotary, Dtype dtype) {
  return {s.rows,
          s.heads,
          s.plain_dim,
          s.rotary_dim,
          plain.row_stride(s.heads * s.plain_dim),
          rotary.row_stride(s.rotary_dim),
          dtype};
}

}  // namespace

OpCost JoinKeysArgs::cost(LatentKeysShape const& s, CostContext const& context) { return {0, moved_bytes(s, context)}; }

JoinKeysArgs JoinKeysArgs::bind(LatentKeysShape const& s, Binding const& b) {
  return {bound_shape(s, b.in(0), b.in(1), b.precision), b.in(0).data, b.in(1).data, b.out(0).data};
}

OpCost SplitKeysArgs::cost(LatentKeysShape const& s, CostContext const& context) {
  return {static_cast<double>(s.rows * s.heads * s.rotary_dim), moved_bytes(s, context)};
}

SplitKeysArgs SplitKeysArgs::bind(LatentKeysShape const& s, Binding const& b) {
  return {bound_shape(s, b.out(0), b.out(1), b.precision), b.in(0).data, b.out(0).data, b.out(1).data};
}

}  // namespace shardbench
