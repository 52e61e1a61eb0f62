#include "kernels/attention/attention.hpp"

#include <algorithm>

namespace shardbench {
namespace {

/// Sum over i in [0, n) of clamp(first + i, 0, limit).
double clamped_ramp(std::int64_t first, std::int64_t n, std::int64_t limit) {
  // i below `rising` gives 0, from `flat` on it gives `limit`.
  std::int64_t const rising = std::clamp<std::int64_t>(-first, 0, n);
  std::int64_t const flat = std::clamp<std::int64_t>(limit - first, rising, n);
  double const steps = static_cast<double>(flat - rising);
  double const first_value = static_cast<double>(first + rising), last_value = static_cast<double>(first + flat - 1);
  double const ramp = steps > 0 ? steps * (first_value + last_value) / 2 : 0.0;
  return ramp + elements_of(n - flat, limit);
}

/// Elements of q, k, v and out together; the same again is what their gradients take.
double operand_elements(AttentionOpShape const& s) {
  return elements_of(s.seq_q, s.batch, s.heads * s.head_dim) +
         elements_of(s.seq_k, s.batch, s.kv_heads * (s.head_dim + s.value_dim)) +
         elements_of(s.seq_q, s.batch, s.heads * s.value_dim);
}

double statistics_bytes(AttentionOpShape const& s) { return fp32_bytes * elements_of(s.seq_q, s.batch, s.heads); }

/// FLOPs of `query_products` products over head_dim and `value_products` over value_dim for each pair.
double pair_flops(AttentionOpShape const& s, double pairs, double query_products, double value_products) {
  return 2 * elements_of(s.batch, s.heads) * pairs *
         (query_products * static_cast<double>(s.head_dim) + value_products * static_cast<double>(s.value_dim));
}

AttentionTensor part(Operand const& operand) { return {operand.data, operand.row_stride()}; }

AttentionShape bound_shape(AttentionOpShape const& s, Binding const& b) {
  AttentionShape a = attention_shape(s, b.precision);
  // A step may stand before the longest context; where it stands behind a cache's last row, all rows are seen.
  if (b.context > 0) a.seq_k = std::min(s.seq_k, b.position + s.seq_q);
  return a;
}

}  // namespace

AttentionShape attention_shape(AttentionOpShape const& s, Dtype dtype) {
  AttentionShape a;
  a.seq_q = s.seq_q, a.seq_k = s.seq_k, a.batch = s.batch;
  a.heads = s.heads, a.kv_heads = s.kv_heads, a.head_dim = s.head_dim, a.value_dim = s.value_dim;
  a.scale = s.scale, a.softcap = s.softcap, a.window = s.window, a.mask = s.mask;
  a.q_offset = s.q_offset, a.statistic_stride = s.statistic_stride;
  a.dtype = dtype;
  return a;
}

double visible_pairs(AttentionVisibility const& v) {
  // Query i sees keys [low, high): high is bounded by causality, low by the window.
  double const high = v.causal ? clamped_ramp(v.q_offset + 1, v.seq_q, v.seq_k) : elements_of(v.seq_q, v.seq_k);
  double const low = v.window > 0 ? clamped_ramp(v.q_offset - v.window + 1, v.seq_q, v.seq_k) : 0.0;
  return high - low;
}

OpCost AttentionForwardArgs::cost(AttentionOpShape const& s, CostContext const& context) {
  double const flops = pair_flops(s, s.visible_pairs, 1, 1);
  return {flops, width_of(context.precision) * operand_elements(s) + statistics_bytes(s), flops,
          pair_flops(s, s.full_pairs, 1, 1)};
}

AttentionForwardArgs AttentionForwardArgs::bind(AttentionOpShape const& s, Binding const& b) {
  AttentionForwardArgs a;
  a.shape = bound_shape(s, b);
  a.q = part(b.in(0)), a.k = part(b.in(1)), a.v = part(b.in(2));
  a.out = part(b.out(0)), a.log_sum_exp = b.out(1).as<float>();
  return a;
}

OpCost AttentionBackwardArgs::cost(AttentionOpShape const& s, CostContext const& context) {
  // q, k, v, out, dout are read; dq, dk, dv written.
  return {pair_flops(s, s.visible_pairs, 3, 2),
          width_of(context.precision) * (2 * operand_elements(s)) + statistics_bytes(s),
          pair_flops(s, s.visible_pairs, 2, 2), pair_flops(s, s.full_pairs, 2, 2)};
}

AttentionBackwardArgs AttentionBackwardArgs::bind(AttentionOpShape const& s, Binding const& b) {
  AttentionBackwardArgs a;
  a.shape = bound_shape(s, b);
  a.q = part(b.in(0)), a.k = part(b.in(1)), a.v = part(b.in(2));
  a.out = part(b.in(3)), a.dout = part(b.in(4)), a.log_sum_exp = b.in(5).as<float>();
  a.dq = part(b.out(0)), a.dk = part(b.out(1)), a.dv = part(b.out(2));
  a.accumulate_q = s.add_q, a.accumulate_kv = s.add_kv;
  return a;
}

OpCost AttentionMergeArgs::cost(AttentionOpShape const& s, CostContext const& context) {
  std::int64_t const rows = s.seq_q * s.batch;
  double const elements = elements_of(rows, s.heads, s.value_dim), statistics = elements_of(rows, s.heads);
  return {3 * elements + 8 * statistics, 3 * width_of(context.precision) * elements + 3 * fp32_bytes * statistics};
}

AttentionMergeArgs AttentionMergeArgs::bind(AttentionOpShape const& s, Binding const& b) {
  return {s.seq_q,
          s.batch,
          s.heads,
          s.value_dim,
          part(b.out(0)),
          part(b.in(0)),
          b.out(1).as<float>(),
          b.in(1).as<float>(),
          s.statistic_stride,
          b.precision};
}

}  // namespace shardbench
