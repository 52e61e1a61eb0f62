#include "kernels/gemm/gemm.hpp"

namespace shardbench {

OpCost GemmArgs::cost(GemmShape const& s, CostContext const& context) {
  bool const bias = context.has_input(2);
  double const out = elements_of(s.m, s.n), product = 2 * elements_of(s.m, s.n, s.k);
  double const operands = elements_of(s.m, s.k) + elements_of(s.k, s.n) + (bias ? static_cast<double>(s.n) : 0.0);
  OpCost cost = product_cost(
      product, width_of(context.precision) * operands + width_of(context.output) * out * (context.adds ? 2 : 1));
  cost.model_flops *= s.model_share, cost.model_flops_full *= s.model_share;
  if (bias) cost.flops += out;
  return cost;
}

GemmArgs GemmArgs::bind(GemmShape const& s, Binding const& b) {
  GemmArgs a;
  a.a = b.in(0).data, a.b = b.in(1).data, a.bias = b.in(2).data, a.c = b.out(0).data;
  a.m = s.m, a.n = s.n, a.k = s.k;
  a.transpose_a = s.transpose_a, a.transpose_b = s.transpose_b;
  a.lda = b.in(0).row_stride(s.transpose_a ? s.m : s.k);
  a.ldb = b.in(1).row_stride(s.transpose_b ? s.k : s.n);
  a.ldc = b.out(0).row_stride(s.n);
  a.beta = b.adds ? 1.0f : 0.0f;
  a.input_dtype = b.in(0).dtype, a.output_dtype = b.out(0).dtype;
  return a;
}

OpCost GroupedGemmArgs::cost(GroupedGemmShape const& s, CostContext const& context) {
  double const in = width_of(context.precision), out = width_of(context.output);
  auto const rows = static_cast<std::int64_t>(s.expected_m);
  if (s.weight_gradient)
    return product_cost(
        2 * elements_of(rows, s.m, s.n),
        in * elements_of(rows, s.m + s.n) + out * elements_of(s.groups, s.m, s.n) * (context.adds ? 2 : 1));
  return product_cost(2 * elements_of(rows, s.n, s.k),
                      in * (elements_of(rows, s.k) + elements_of(s.groups, s.k, s.n)) + out * elements_of(rows, s.n));
}

GroupedGemmArgs GroupedGemmArgs::bind(GroupedGemmShape const& s, Binding const& b) {
  GroupedGemmArgs a;
  a.a = b.in(0).data, a.b = b.in(1).data, a.c = b.out(0).data;
  a.offsets = b.expert_offsets;
  a.groups = s.groups, a.m = s.m, a.n = s.n, a.k = s.k;
  a.transpose_b = s.transpose_b, a.weight_gradient = s.weight_gradient;
  a.beta = b.adds ? 1.0f : 0.0f;
  a.input_dtype = b.in(0).dtype, a.output_dtype = b.out(0).dtype;
  return a;
}

}  // namespace shardbench
