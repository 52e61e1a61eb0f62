#include "kernels/dropout/dropout.hpp"

namespace shardbench {

OpCost DropoutArgs::cost(DropoutShape const& s, CostContext const& context) {
  bool const bias = context.has_input(1), residual = context.has_input(2);
  double const elements = elements_of(s.rows, s.cols);
  return {4 * elements,
          width_of(context.precision) * ((residual ? 3 : 2) * elements + (bias ? static_cast<double>(s.cols) : 0))};
}

DropoutArgs DropoutArgs::bind(DropoutShape const& s, Binding const& b) {
  DropoutArgs a;
  a.x = b.in(0).data, a.bias = b.in(1).data, a.residual = b.in(2).data, a.out = b.out(0).data;
  a.rows = s.rows, a.cols = s.cols, a.rate = s.rate;
  a.key = b.random ^ s.site;
  a.positions = b.in(3).as<std::int32_t>();
  a.batch = s.batch, a.copies = s.copies, a.seq = b.seq, a.first_sample = b.first_sample;
  a.dtype = b.precision;
  return a;
}

}  // namespace shardbench
