#pragma once
#include <cstdint>

#include "kernels/core/dtype.hpp"

namespace shardbench {

/// Work of one kernel call: floating-point operations, and the bytes that must move if every operand is read once and
/// every result written once.
struct OpCost {
  double flops = 0;
  double bytes = 0;
  OpCost& operator+=(OpCost const& other) {
    flops += other.flops;
    bytes += other.bytes;
    return *this;
  }
  friend OpCost operator+(OpCost a, OpCost const& b) { return a += b; }
  friend OpCost operator*(double times, OpCost const& cost) { return {times * cost.flops, times * cost.bytes}; }
};

/// 2mnk; `accumulate` reads C as well.
OpCost gemm_cost(std::int64_t m, std::int64_t n, std::int64_t k, Dtype input, Dtype output, bool accumulate = false,
                 bool bias = false);

/// `rows` over all groups, each with its own [k,n] weights (all of them are read).
OpCost grouped_gemm_cost(std::int64_t rows, std::int64_t groups, std::int64_t n, std::int64_t k, Dtype input,
                         Dtype output);

/// C[g] = A[g]^T B[g] for every group, A [rows,m], B [rows,n].
OpCost grouped_gemm_weight_gradient_cost(std::int64_t rows, std::int64_t groups, std::int64_t m, std::int64_t n,
                                         Dtype input, Dtype output, bool accumulate = false);

/// Which keys a query sees, without the position arrays: query i stands at `q_offset` + i, key j at j.
struct AttentionVisibility {
  std::int64_t seq_q = 0, seq_k = 0;
  bool causal = true;
  std::int64_t window = 0;    ///< 0 means unlimited; else the ages 0 .. window-1 are seen
  std::int64_t q_offset = 0;  ///< seq_k - seq_q where the queries are the last positions
};

/// Number of (query, key) pairs that take part, in closed form.
double visible_pairs(AttentionVisibility const& visibility);

/// Sizes of attention for counting; `pairs` is seq_q * seq_k (the full convention) or visible_pairs (what must run).
struct AttentionCostShape {
  std::int64_t seq_q = 0, seq_k = 0, batch = 0, heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0;
  double pairs = 0;
  Dtype dtype = Dtype::f32;
};

/// Two products a pair: 2 * (head_dim + value_dim) FLOPs; q, k, v read, out and log-sum-exp written.
OpCost attention_forward_cost(AttentionCostShape const& shape);

/// Five products a pair, the scores' recomputation included: 2 * (3 head_dim + 2 value_dim) FLOPs.
OpCost attention_backward_cost(AttentionCostShape const& shape);

/// The four products a pair that the gradient needs, without recomputing scores: what model FLOPs count (twice
/// forward).
double attention_backward_model_flops(AttentionCostShape const& shape);

/// 3 FLOPs an element and 8 a row and head: both outputs and their statistics are read, one of each is written.
OpCost attention_merge_cost(std::int64_t rows, std::int64_t heads, std::int64_t value_dim, Dtype dtype);

/// 8 FLOPs an element (layer norm) or 5 (RMS norm), 1 more with a residual.
OpCost norm_forward_cost(std::int64_t rows, std::int64_t cols, Dtype dtype, bool layer_norm, bool with_residual);

/// About twice the forward's FLOPs; dy and x read, dx written, dsum read too when the residual path brings one.
OpCost norm_backward_cost(std::int64_t rows, std::int64_t cols, Dtype dtype, bool layer_norm, bool with_dsum);

/// 3 FLOPs an element that turns (2 products, 1 sum), read and written in place.
OpCost rope_cost(std::int64_t rows, std::int64_t heads, std::int64_t rotary_dim, Dtype dtype);

/// 10 FLOPs an element for GELU and SiLU alike, 1 more for a gate.
OpCost activation_forward_cost(std::int64_t rows, std::int64_t cols, Dtype dtype, bool gated);

/// 15 FLOPs an element, 3 more for a gate.
OpCost activation_backward_cost(std::int64_t rows, std::int64_t cols, Dtype dtype, bool gated);

/// No FLOPs: rows of `weight` read, `out` written (read too when `accumulate`).
OpCost embedding_forward_cost(std::int64_t tokens, std::int64_t cols, Dtype dtype, bool accumulate = false);

/// One addition an element; fp32 rows read and written, the whole gradient zeroed unless `accumulate`.
OpCost embedding_backward_cost(std::int64_t tokens, std::int64_t rows, std::int64_t cols, Dtype dtype, bool accumulate);

/// One comparison a logit.
OpCost cross_entropy_max_cost(std::int64_t tokens, std::int64_t columns, Dtype dtype);
/// Subtract, exponentiate, add: 3 FLOPs a logit.
OpCost cross_entropy_sum_cost(std::int64_t tokens, std::int64_t columns, Dtype dtype);
/// Per token only.
OpCost cross_entropy_loss_cost(std::int64_t tokens);
/// Subtract, exponentiate, scale: 3 FLOPs a logit; logits read, gradients written.
OpCost cross_entropy_backward_cost(std::int64_t tokens, std::int64_t columns, Dtype dtype);

/// 14 FLOPs a parameter; both averages and the master (when there is one) read and written.
OpCost adamw_cost(std::int64_t count, Dtype parameter, Dtype gradient, bool with_master);

/// Two reads and a write an element.
OpCost add_cost(std::int64_t count, Dtype dtype);
/// One read an element.
OpCost column_sum_cost(std::int64_t rows, std::int64_t cols, Dtype dtype);
/// No FLOPs: a read and a write an element.
OpCost copy_block_cost(std::int64_t rows, std::int64_t cols, Dtype from, Dtype to);
/// One read and 2 FLOPs an element.
OpCost square_sum_cost(std::int64_t count, Dtype dtype);
/// A read and a write an element.
OpCost scale_cost(std::int64_t count, Dtype dtype);
/// Scores of every expert and the choice; backwards the logits' gradient is written too.
OpCost router_cost(std::int64_t tokens, std::int64_t experts, std::int64_t top_k, Dtype dtype, bool backward = false);
/// Rows of `cols` moved between token order (`tokens` of them) and expert order (`sorted`), weighted or not.
OpCost permute_cost(double tokens, double sorted, std::int64_t cols, Dtype dtype);
/// A product of two rows for each of `sorted` rows.
OpCost combine_weights_cost(double tokens, double sorted, std::int64_t cols, Dtype dtype);
/// Places of `entries` rows among `experts`.
OpCost expert_rows_cost(double entries, std::int64_t experts);
/// 4 FLOPs an element (bias, mask, scale, sum); x read, out written, the residual read too where there is one.
OpCost dropout_cost(std::int64_t rows, std::int64_t cols, Dtype dtype, bool bias, bool residual);

}  // namespace shardbench
