#include "kernels/rope/rope.hpp"

namespace shardbench {

OpCost RopeArgs::cost(RopeShape const& s, CostContext const& context) {
  double const elements = elements_of(s.seq * s.batch, s.heads, s.rotary_dim);
  return {3 * elements, 2 * width_of(context.precision) * elements};
}

RopeArgs RopeArgs::bind(RopeShape const& s, Binding const& b) {
  RopeArgs a;
  a.x = b.out(0).data, a.row_stride = b.out(0).row_stride(), a.positions = b.in(1).as<std::int32_t>();
  a.seq = s.seq, a.batch = s.batch, a.heads = s.heads, a.head_dim = s.head_dim, a.rotary_dim = s.rotary_dim;
  a.rule = s.rule, a.inverse = s.inverse, a.dtype = b.precision;
  return a;
}

}  // namespace shardbench
