#include "kernels/batch_norm/batch_norm.hpp"

namespace shardbench {

OpCost BatchNormForwardArgs::cost(BatchNormShape const& s, CostContext const& context) {
  double const elements = static_cast<double>(s.rows * s.cols);
  return {7 * elements, 2 * elements * width_of(context.precision)};
}

BatchNormForwardArgs BatchNormForwardArgs::bind(BatchNormShape const& s, Binding const& b) {
  BatchNormForwardArgs a;
  a.x = b.in(0).data, a.weight = b.in(1).data, a.bias = b.in(2).data;
  a.y = b.out(0).data, a.mean = b.out(1).as<float>(), a.rstd = b.out(2).as<float>();
  a.rows = s.rows, a.cols = s.cols, a.eps = s.eps, a.dtype = b.precision;
  return a;
}

OpCost BatchNormBackwardArgs::cost(BatchNormShape const& s, CostContext const& context) {
  double const elements = static_cast<double>(s.rows * s.cols);
  return {14 * elements, 3 * elements * width_of(context.precision)};
}

BatchNormBackwardArgs BatchNormBackwardArgs::bind(BatchNormShape const& s, Binding const& b) {
  BatchNormBackwardArgs a;
  a.dy = b.in(0).data, a.x = b.in(1).data, a.weight = b.in(2).data;
  a.mean = b.in(3).as<float>(), a.rstd = b.in(4).as<float>();
  a.dx = b.out(0).data, a.dweight = b.out(1).as<float>(), a.dbias = b.out(2).as<float>();
  a.sums = b.out(3).as<float>();
  a.rows = s.rows, a.cols = s.cols, a.accumulate = b.adds, a.dtype = b.precision;
  return a;
}

}  // namespace shardbench
