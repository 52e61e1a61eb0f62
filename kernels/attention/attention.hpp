#pragma once
#include <cstdint>
#include <limits>

#include "kernels/core/binding.hpp"
#include "kernels/core/cost.hpp"
#include "kernels/core/device.hpp"

namespace shardbench {

/// Which keys a query sees. `causal` compares positions, so zigzag chunks need no mask of their own.
enum class AttentionMask : std::uint8_t { none, causal };

/// Element (s, b, head, d) of a tensor lies at pointer + s*row_stride*batch + b*row_stride + head*head_dim + d:
/// rows are (sequence, batch), sequence outermost, and `row_stride` may exceed heads*head_dim (a slice of packed QKV).
struct AttentionTensor {
  void* data = nullptr;
  std::int64_t row_stride = 0;  ///< elements between consecutive rows
};

/// AttentionShape::q_offset of queries that end with the last key.
inline constexpr std::int64_t aligned_ends = std::numeric_limits<std::int64_t>::min();

/// Sizes and rules shared by forward and backward. A block of a longer sequence says where its queries stand.
struct AttentionShape {
  std::int64_t seq_q = 0, seq_k = 0, batch = 0;
  std::int64_t heads = 0;      ///< query heads
  std::int64_t kv_heads = 0;   ///< divides heads; query head i reads kv head i / (heads / kv_heads)
  std::int64_t head_dim = 0;   ///< of queries and keys
  std::int64_t value_dim = 0;  ///< of values and outputs
  float scale = 1;
  float softcap = 0;        ///< scores become softcap * tanh(score / softcap) when > 0 (Gemma 2)
  std::int64_t window = 0;  ///< keys older than this many positions are masked when > 0
  AttentionMask mask = AttentionMask::causal;
  std::int32_t const* q_positions = nullptr;  ///< [seq_q] global positions; nullptr means q_offset, q_offset + 1, ...
  std::int32_t const* k_positions = nullptr;  ///< [seq_k]; nullptr means 0, 1, ...
  std::int64_t q_offset = aligned_ends;       ///< of query 0, key 0 standing at 0; seq_k - seq_q unless given
  std::int64_t statistic_stride = 0;          ///< between the heads of log_sum_exp, 0: seq_q (a slice of more queries)
  Dtype dtype = Dtype::f32;
};

/// What one attention op works on, and the pairs that it counts.
struct AttentionOpShape {
  std::int64_t seq_q = 0, seq_k = 0, batch = 0, heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0, window = 0;
  float scale = 1, softcap = 0;
  AttentionMask mask = AttentionMask::causal;
  double visible_pairs = 0;                                    ///< query-key pairs a head computes for one sample
  double full_pairs = 0;                                       ///< the pairs it stands for when masked ones count too
  std::int64_t q_offset = aligned_ends, statistic_stride = 0;  ///< as the kernels take them
  bool add_q = false, add_kv = false;                          ///< backward adds to its gradients
};

/// What an attention op asks of its kernel, at the longest context.
AttentionShape attention_shape(AttentionOpShape const& shape, Dtype dtype);

/// Which keys a query sees, without the position arrays: query i stands at `q_offset` + i, key j at j.
struct AttentionVisibility {
  std::int64_t seq_q = 0, seq_k = 0;
  bool causal = true;
  std::int64_t window = 0;    ///< 0 means unlimited; else the ages 0 .. window-1 are seen
  std::int64_t q_offset = 0;  ///< seq_k - seq_q where the queries are the last positions
};

/// Number of (query, key) pairs that take part, in closed form.
double visible_pairs(AttentionVisibility const& visibility);

/// out = softmax(scale * q k^T + mask) v, never holding seq_q x seq_k scores.
/// A query that sees no key gives zeros and a log-sum-exp of -infinity.
struct AttentionForwardArgs {
  using Shape = AttentionOpShape;
  /// Two products a pair: 2 * (head_dim + value_dim) FLOPs; q, k, v read, out and log-sum-exp written.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static AttentionForwardArgs bind(Shape const& shape, Binding const& binding);

  AttentionShape shape;
  AttentionTensor q, k, v, out;
  float* log_sum_exp = nullptr;  ///< [batch, heads, seq_q]
};

/// Gradients of q, k, v from that of out; exact for the keys given when out and log_sum_exp are those over all keys.
/// dq, and dk with dv, are overwritten, or added to when asked.
struct AttentionBackwardArgs {
  using Shape = AttentionOpShape;
  /// Five products a pair, the scores' recomputation included; the model's are the four that the gradient needs.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static AttentionBackwardArgs bind(Shape const& shape, Binding const& binding);

  AttentionShape shape;
  AttentionTensor q, k, v, out, dout, dq, dk, dv;
  float const* log_sum_exp = nullptr;
  bool accumulate_q = false, accumulate_kv = false;
};

/// out and its log-sum-exp, over some keys, take in `block`'s, over other keys of the same queries: each is weighted by
/// its share of the softmax sum. Queries that a side shows no key keep the other side's values.
struct AttentionMergeArgs {
  using Shape = AttentionOpShape;
  /// 3 FLOPs an element and 8 a row and head: both outputs and their statistics are read, one of each is written.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static AttentionMergeArgs bind(Shape const& shape, Binding const& binding);

  std::int64_t seq = 0, batch = 0, heads = 0, value_dim = 0;
  AttentionTensor out, block;
  float* log_sum_exp = nullptr;              ///< [batch, heads, seq], heads `statistic_stride` apart
  float const* block_log_sum_exp = nullptr;  ///< [batch, heads, seq]
  std::int64_t statistic_stride = 0;         ///< 0: seq
  Dtype dtype = Dtype::f32;
};

}  // namespace shardbench
