#pragma once
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

/// Global position of query `i`, by the array or by the default that ends with the last key.
SB_HOST_DEVICE inline std::int64_t q_position(AttentionShape const& shape, std::int64_t i) {
  return shape.q_positions != nullptr ? shape.q_positions[i] : i + shape.seq_k - shape.seq_q;
}

/// Global position of key `j`.
SB_HOST_DEVICE inline std::int64_t k_position(AttentionShape const& shape, std::int64_t j) {
  return shape.k_positions != nullptr ? shape.k_positions[j] : j;
}

}  // namespace shardbench
