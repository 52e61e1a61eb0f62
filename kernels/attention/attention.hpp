#pragma once
#include <cstdint>

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

/// Sizes and rules shared by forward and backward.
struct AttentionShape {
  std::int64_t seq_q = 0, seq_k = 0, batch = 0;
  std::int64_t heads = 0;     ///< query heads
  std::int64_t kv_heads = 0;  ///< divides heads; query head i reads kv head i / (heads / kv_heads)
  std::int64_t head_dim = 0;  ///< of queries and keys
  std::int64_t value_dim = 0; ///< of values and outputs
  float scale = 1;
  float softcap = 0;          ///< scores become softcap * tanh(score / softcap) when > 0 (Gemma 2)
  std::int64_t window = 0;    ///< keys older than this many positions are masked when > 0
  AttentionMask mask = AttentionMask::causal;
  std::int32_t const* q_positions = nullptr;  ///< [seq_q] global positions; nullptr means 0, 1, ... + (seq_k - seq_q)
  std::int32_t const* k_positions = nullptr;  ///< [seq_k]; nullptr means 0, 1, ...
  Dtype dtype = Dtype::f32;
};

/// out = softmax(scale * q k^T + mask) v, never holding seq_q x seq_k scores.
/// A query that sees no key gives zeros and a log-sum-exp of -infinity.
struct AttentionForwardArgs {
  AttentionShape shape;
  AttentionTensor q, k, v, out;
  float* log_sum_exp = nullptr;  ///< [batch, heads, seq_q]
};

/// Gradients of q, k, v from that of out. dq, dk, dv are overwritten, or added to when `accumulate`.
struct AttentionBackwardArgs {
  AttentionShape shape;
  AttentionTensor q, k, v, out, dout, dq, dk, dv;
  float const* log_sum_exp = nullptr;
  bool accumulate = false;
};

}  // namespace shardbench
