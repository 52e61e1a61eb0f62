#include "kernels/core/cost.hpp"

#include <algorithm>

namespace shardbench {
namespace {

double product(std::int64_t a, std::int64_t b) { return static_cast<double>(a) * static_cast<double>(b); }
double product(std::int64_t a, std::int64_t b, std::int64_t c) { return product(a, b) * static_cast<double>(c); }
double size(Dtype dtype) { return static_cast<double>(bytes_of(dtype)); }

constexpr double fp32_bytes = 4;

/// Sum over i in [0, n) of clamp(first + i, 0, limit).
double clamped_ramp(std::int64_t first, std::int64_t n, std::int64_t limit) {
  // i below `rising` gives 0, from `flat` on it gives `limit`.
  std::int64_t const rising = std::clamp<std::int64_t>(-first, 0, n);
  std::int64_t const flat = std::clamp<std::int64_t>(limit - first, rising, n);
  double const steps = static_cast<double>(flat - rising);
  double const first_value = static_cast<double>(first + rising), last_value = static_cast<double>(first + flat - 1);
  double const ramp = steps > 0 ? steps * (first_value + last_value) / 2 : 0.0;
  return ramp + product(n - flat, limit);
}

/// Elements of q, k, v and out together; the same again is what their gradients take.
double query_elements(AttentionCostShape const& s) { return product(s.seq_q, s.batch, s.heads * s.head_dim); }
double output_elements(AttentionCostShape const& s) { return product(s.seq_q, s.batch, s.heads * s.value_dim); }
double key_value_elements(AttentionCostShape const& s) {
  return product(s.seq_k, s.batch, s.kv_heads * (s.head_dim + s.value_dim));
}
double statistics_bytes(AttentionCostShape const& s) { return fp32_bytes * product(s.seq_q, s.batch, s.heads); }

/// 2 * FLOPs of `query_products` products over head_dim and `value_products` over value_dim.
double pair_flops(AttentionCostShape const& s, double query_products, double value_products) {
  return 2 * product(s.batch, s.heads) * s.pairs *
         (query_products * static_cast<double>(s.head_dim) + value_products * static_cast<double>(s.value_dim));
}

}  // namespace

OpCost gemm_cost(std::int64_t m, std::int64_t n, std::int64_t k, Dtype input, Dtype output, bool accumulate,
                 bool bias) {
  double const operands = product(m, k) + product(k, n) + (bias ? static_cast<double>(n) : 0.0);
  return {2 * product(m, n, k) + (bias ? product(m, n) : 0.0),
          size(input) * operands + size(output) * product(m, n) * (accumulate ? 2 : 1)};
}

OpCost grouped_gemm_cost(std::int64_t rows, std::int64_t groups, std::int64_t n, std::int64_t k, Dtype input,
                         Dtype output) {
  return {2 * product(rows, n, k),
          size(input) * (product(rows, k) + product(groups, k, n)) + size(output) * product(rows, n)};
}

OpCost grouped_gemm_weight_gradient_cost(std::int64_t rows, std::int64_t groups, std::int64_t m, std::int64_t n,
                                         Dtype input, Dtype output, bool accumulate) {
  return {2 * product(rows, m, n),
          size(input) * product(rows, m + n) + size(output) * product(groups, m, n) * (accumulate ? 2 : 1)};
}

double visible_pairs(AttentionVisibility const& v) {
  // Query i sees keys [low, high): high is bounded by causality, low by the window.
  double const high = v.causal ? clamped_ramp(v.q_offset + 1, v.seq_q, v.seq_k) : product(v.seq_q, v.seq_k);
  double const low = v.window > 0 ? clamped_ramp(v.q_offset - v.window + 1, v.seq_q, v.seq_k) : 0.0;
  return high - low;
}

OpCost attention_forward_cost(AttentionCostShape const& s) {
  double const elements = query_elements(s) + key_value_elements(s) + output_elements(s);
  return {pair_flops(s, 1, 1), size(s.dtype) * elements + statistics_bytes(s)};
}

OpCost attention_backward_cost(AttentionCostShape const& s) {
  // q, k, v, out, dout are read; dq, dk, dv written.
  double const elements = 2 * (query_elements(s) + key_value_elements(s) + output_elements(s));
  return {pair_flops(s, 3, 2), size(s.dtype) * elements + statistics_bytes(s)};
}

double attention_backward_model_flops(AttentionCostShape const& s) { return pair_flops(s, 2, 2); }

OpCost attention_merge_cost(std::int64_t rows, std::int64_t heads, std::int64_t value_dim, Dtype dtype) {
  double const elements = product(rows, heads, value_dim), statistics = product(rows, heads);
  return {3 * elements + 8 * statistics, 3 * size(dtype) * elements + 3 * fp32_bytes * statistics};
}

OpCost norm_forward_cost(std::int64_t rows, std::int64_t cols, Dtype dtype, bool layer_norm, bool with_residual) {
  double const elements = product(rows, cols);
  return {
      elements * ((layer_norm ? 8 : 5) + (with_residual ? 1 : 0)),
      size(dtype) * elements * (with_residual ? 4 : 2) + fp32_bytes * static_cast<double>(rows) * (layer_norm ? 2 : 1)};
}

OpCost norm_backward_cost(std::int64_t rows, std::int64_t cols, Dtype dtype, bool layer_norm, bool with_dsum) {
  double const elements = product(rows, cols);
  return {
      elements * ((layer_norm ? 15 : 11) + (with_dsum ? 1 : 0)),
      size(dtype) * elements * (with_dsum ? 4 : 3) + fp32_bytes * (static_cast<double>(rows) * (layer_norm ? 2 : 1) +
                                                                   static_cast<double>(cols) * (layer_norm ? 2 : 1))};
}

OpCost rope_cost(std::int64_t rows, std::int64_t heads, std::int64_t rotary_dim, Dtype dtype) {
  double const elements = product(rows, heads, rotary_dim);
  return {3 * elements, 2 * size(dtype) * elements};
}

OpCost activation_forward_cost(std::int64_t rows, std::int64_t cols, Dtype dtype, bool gated) {
  double const elements = product(rows, cols);
  return {elements * (gated ? 11 : 10), size(dtype) * elements * (gated ? 3 : 2)};
}

OpCost activation_backward_cost(std::int64_t rows, std::int64_t cols, Dtype dtype, bool gated) {
  double const elements = product(rows, cols);
  return {elements * (gated ? 18 : 15), size(dtype) * elements * (gated ? 5 : 3)};
}

OpCost embedding_forward_cost(std::int64_t tokens, std::int64_t cols, Dtype dtype, bool accumulate) {
  double const elements = product(tokens, cols);
  return {accumulate ? elements : 0.0, size(dtype) * elements * (accumulate ? 3 : 2)};
}

OpCost embedding_backward_cost(std::int64_t tokens, std::int64_t rows, std::int64_t cols, Dtype dtype,
                               bool accumulate) {
  double const elements = product(tokens, cols);
  return {elements, (size(dtype) + 2 * fp32_bytes) * elements + (accumulate ? 0.0 : fp32_bytes * product(rows, cols))};
}

OpCost cross_entropy_max_cost(std::int64_t tokens, std::int64_t columns, Dtype dtype) {
  return {product(tokens, columns), size(dtype) * product(tokens, columns) + fp32_bytes * static_cast<double>(tokens)};
}

OpCost cross_entropy_sum_cost(std::int64_t tokens, std::int64_t columns, Dtype dtype) {
  return {3 * product(tokens, columns),
          size(dtype) * product(tokens, columns) + 4 * fp32_bytes * static_cast<double>(tokens)};
}

OpCost cross_entropy_loss_cost(std::int64_t tokens) {
  return {3 * static_cast<double>(tokens), 3 * fp32_bytes * static_cast<double>(tokens)};
}

OpCost cross_entropy_backward_cost(std::int64_t tokens, std::int64_t columns, Dtype dtype) {
  return {3 * product(tokens, columns),
          2 * size(dtype) * product(tokens, columns) + 3 * fp32_bytes * static_cast<double>(tokens)};
}

OpCost adamw_cost(std::int64_t count, Dtype parameter, Dtype gradient, bool with_master) {
  // Without a master the parameter itself is read and written; with one it is only written.
  double const parameter_bytes = with_master ? size(parameter) + 2 * fp32_bytes : 2 * size(parameter);
  return {14 * static_cast<double>(count),
          static_cast<double>(count) * (parameter_bytes + size(gradient) + 4 * fp32_bytes)};
}

OpCost add_cost(std::int64_t count, Dtype dtype) {
  return {2 * static_cast<double>(count), 3 * size(dtype) * static_cast<double>(count)};
}

OpCost column_sum_cost(std::int64_t rows, std::int64_t cols, Dtype dtype) {
  return {product(rows, cols), size(dtype) * product(rows, cols) + fp32_bytes * static_cast<double>(cols)};
}

OpCost copy_block_cost(std::int64_t rows, std::int64_t cols, Dtype from, Dtype to) {
  return {0, (size(from) + size(to)) * product(rows, cols)};
}

OpCost square_sum_cost(std::int64_t count, Dtype dtype) {
  return {2 * static_cast<double>(count), size(dtype) * static_cast<double>(count)};
}

OpCost scale_cost(std::int64_t count, Dtype dtype) {
  return {static_cast<double>(count), 2 * size(dtype) * static_cast<double>(count)};
}

OpCost router_cost(std::int64_t tokens, std::int64_t experts, std::int64_t top_k, Dtype dtype, bool backward) {
  double const logits = product(tokens, experts);
  return {8 * logits, size(dtype) * logits * (backward ? 2 : 1) + 2 * fp32_bytes * product(tokens, top_k)};
}

OpCost permute_cost(double tokens, double sorted, std::int64_t cols, Dtype dtype) {
  double const width = static_cast<double>(cols);
  return {sorted * width, size(dtype) * (tokens + sorted) * width + 2 * fp32_bytes * sorted};
}

OpCost combine_weights_cost(double tokens, double sorted, std::int64_t cols, Dtype dtype) {
  OpCost cost = permute_cost(tokens, sorted, cols, dtype);
  cost.flops *= 2;
  return cost;
}

OpCost expert_rows_cost(double entries, std::int64_t experts) {
  return {entries, fp32_bytes * (2 * entries + static_cast<double>(experts))};
}

OpCost dropout_cost(std::int64_t rows, std::int64_t cols, Dtype dtype, bool bias, bool residual) {
  return {4 * product(rows, cols),
          size(dtype) * ((residual ? 3 : 2) * product(rows, cols) + (bias ? static_cast<double>(cols) : 0))};
}

}  // namespace shardbench
