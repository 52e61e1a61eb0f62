#pragma once
#include <cmath>

#include "kernels/attention/attention.hpp"

namespace shardbench {

/// The rules of AttentionShape that decide which keys a query sees.
struct Visibility {
  bool causal = false;
  std::int64_t window = 0;  ///< 0 means unlimited

  /// Whether the query at `q` sees the key at `k`; a window of w keeps the ages 0 .. w-1, the query's own included.
  SB_HOST_DEVICE bool operator()(std::int64_t q, std::int64_t k) const {
    return (!causal || k <= q) && (window <= 0 || q - k < window);
  }
};

SB_HOST_DEVICE inline Visibility visibility_of(AttentionShape const& shape) {
  return {shape.mask == AttentionMask::causal, shape.window};
}

/// Position of query 0 when key 0 stands at 0.
SB_HOST_DEVICE inline std::int64_t q_offset(AttentionShape const& shape) {
  return shape.q_offset == aligned_ends ? shape.seq_k - shape.seq_q : shape.q_offset;
}

/// Global position of query `i`, by the array or by the offset.
SB_HOST_DEVICE inline std::int64_t q_position(AttentionShape const& shape, std::int64_t i) {
  return shape.q_positions != nullptr ? shape.q_positions[i] : i + q_offset(shape);
}

/// Global position of key `j`.
SB_HOST_DEVICE inline std::int64_t k_position(AttentionShape const& shape, std::int64_t j) {
  return shape.k_positions != nullptr ? shape.k_positions[j] : j;
}

/// Where the log-sum-exps of a head start.
SB_HOST_DEVICE inline std::int64_t statistic_row(AttentionShape const& shape, std::int64_t b, std::int64_t head) {
  return (b * shape.heads + head) * (shape.statistic_stride > 0 ? shape.statistic_stride : shape.seq_q);
}

/// How two softmaxes over different keys join: the weights of their outputs, and the joint log-sum-exp.
struct MergeWeights {
  float own = 0, block = 0, log_sum_exp = 0;
};

SB_HOST_DEVICE inline MergeWeights merge_weights(float own, float block) {
  float const highest = own > block ? own : block;
  if (std::isinf(highest)) return {0, 0, highest};  // neither sees a key
  float const a = std::exp(own - highest), b = std::exp(block - highest), sum = a + b;
  return {a / sum, b / sum, highest + std::log(sum)};
}

SB_HOST_DEVICE inline std::int64_t statistic_stride(AttentionMergeArgs const& args) {
  return args.statistic_stride > 0 ? args.statistic_stride : args.seq;
}

}  // namespace shardbench
