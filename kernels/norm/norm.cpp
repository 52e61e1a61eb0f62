#include "kernels/norm/norm.hpp"

namespace shardbench {

OpCost NormForwardArgs::cost(NormShape const& s, CostContext const& context) {
  bool const layer = s.kind == NormKind::layer_norm;
  double const rows = static_cast<double>(s.rows * s.heads), elements = elements_of(rows, s.cols);
  return {elements * ((layer ? 8 : 5) + (s.residual ? 1 : 0)),
          width_of(context.precision) * elements * (s.residual ? 4 : 2) + fp32_bytes * rows * (layer ? 2 : 1)};
}

NormForwardArgs NormForwardArgs::bind(NormShape const& s, Binding const& b) {
  NormForwardArgs a;
  a.kind = s.kind;
  a.x = b.in(0).data, a.residual = b.in(1).data, a.weight = b.in(2).data, a.bias = b.in(3).data;
  a.y = b.out(0).data, a.mean = b.out(1).as<float>(), a.rstd = b.out(2).as<float>(), a.sum = b.out(3).data;
  a.rows = s.rows, a.cols = s.cols, a.heads = s.heads;
  a.x_stride = b.in(0).row_stride(s.cols), a.y_stride = b.out(0).row_stride(s.cols);
  a.eps = s.eps, a.weight_offset = s.weight_offset, a.dtype = b.precision;
  return a;
}

OpCost NormBackwardArgs::cost(NormShape const& s, CostContext const& context) {
  bool const layer = s.kind == NormKind::layer_norm;
  double const rows = static_cast<double>(s.rows * s.heads), elements = elements_of(rows, s.cols);
  return {elements * ((layer ? 15 : 11) + (s.residual ? 1 : 0)),
          width_of(context.precision) * elements * (s.residual ? 4 : 3) +
              fp32_bytes * (rows * (layer ? 2 : 1) + static_cast<double>(s.cols) * (layer ? 2 : 1))};
}

NormBackwardArgs NormBackwardArgs::bind(NormShape const& s, Binding const& b) {
  NormBackwardArgs a;
  a.kind = s.kind;
  a.dy = b.in(0).data, a.x = b.in(1).data, a.weight = b.in(2).data;
  a.mean = b.in(3).as<float>(), a.rstd = b.in(4).as<float>(), a.dsum = b.in(5).data;
  a.dx = b.out(0).data, a.dweight = b.out(1).as<float>(), a.dbias = b.out(2).as<float>();
  a.rows = s.rows, a.cols = s.cols, a.heads = s.heads;
  a.x_stride = b.in(1).row_stride(s.cols), a.y_stride = b.in(0).row_stride(s.cols);
  a.weight_offset = s.weight_offset, a.accumulate = b.adds, a.dtype = b.precision;
  return a;
}

}  // namespace shardbench
