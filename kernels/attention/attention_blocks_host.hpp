#pragma once
// Parts that the forward and backward attention of the host share: which keys a block of queries reaches, and packing
// a head into dense fp32 rows.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/attention/attention_math.hpp"
#include "kernels/core/row_host.hpp"

namespace shardbench::host {

// Scores of a block take 256 KiB, so they stay in the second-level cache between the two products.
constexpr std::int64_t attention_block_q = 128, attention_block_k = 512;

inline void validate_heads(AttentionShape const& shape) {
  VALIDATE(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0,
           "attention with " + std::to_string(shape.heads) + " heads over " + std::to_string(shape.kv_heads) +
               " kv heads (the second must divide the first)");
}

/// Positions of all queries and keys, from the arrays or the defaults.
struct Positions {
  std::vector<std::int32_t> q, k;

  void assign(AttentionShape const& shape) {
    q.resize(shape.seq_q);
    k.resize(shape.seq_k);
    for (std::int64_t i = 0; i < shape.seq_q; ++i) {
      q[i] = static_cast<std::int32_t>(q_position(shape, i));
    }
    for (std::int64_t j = 0; j < shape.seq_k; ++j) {
      k[j] = static_cast<std::int32_t>(k_position(shape, j));
    }
  }
};

/// Keys [begin, end); `masked` when some query of the block does not see some key of it.
struct KeyRange {
  std::int64_t begin = 0, end = 0;
  bool masked = false;
  std::int64_t size() const { return end - begin; }
};

/// A block of queries and the keys it reaches.
class QueryBlock {
 public:
  QueryBlock(AttentionShape const& shape, Positions const& positions, std::int64_t first)
      : visible_(visibility_of(shape)),
        q_(positions.q.data() + first),
        k_(positions.k.data()),
        seq_k_(shape.seq_k),
        first_(first),
        rows_(std::min(attention_block_q, shape.seq_q - first)) {
    auto const [low, high] = std::minmax_element(q_, q_ + rows_);
    lowest_ = *low;
    highest_ = *high;
  }
  std::int64_t first() const { return first_; }
  std::int64_t rows() const { return rows_; }

  /// The next keys at or after `start` that at least one query may see; empty at the end. Others cost nothing.
  KeyRange next(std::int64_t start) const {
    KeyRange range;
    while (start < seq_k_ && !reachable(k_[start])) ++start;
    range.begin = start;
    range.end = std::min(seq_k_, start + attention_block_k);
    while (range.end > range.begin && !reachable(k_[range.end - 1])) --range.end;
    for (std::int64_t j = range.begin; j < range.end; ++j) range.masked |= !seen_by_all(k_[j]);
    return range;
  }

  /// Whether query row i of the block sees key j.
  bool sees(std::int64_t i, std::int64_t j) const { return visible_(q_[i], k_[j]); }

 private:
  bool reachable(std::int32_t k) const {
    return (!visible_.causal || k <= highest_) && (visible_.window <= 0 || lowest_ - k < visible_.window);
  }
  bool seen_by_all(std::int32_t k) const { return visible_(lowest_, k) && visible_(highest_, k); }

  Visibility visible_;
  std::int32_t const* q_;
  std::int32_t const* k_;
  std::int64_t seq_k_, first_, rows_;
  std::int32_t lowest_ = 0, highest_ = 0;
};

/// First element of row s of a head.
template <class T>
T* head_row(AttentionTensor const& tensor, std::int64_t batch, std::int64_t b, std::int64_t head, std::int64_t dim,
            std::int64_t s) {
  return static_cast<T*>(tensor.data) + (s * batch + b) * tensor.row_stride + head * dim;
}

/// Rows [first, first + rows) of one head as dense fp32 rows times `factor`.
template <class T>
void pack_head(AttentionTensor const& tensor, std::int64_t batch, std::int64_t b, std::int64_t head, std::int64_t dim,
               std::int64_t first, std::int64_t rows, float factor, float* to) {
  for (std::int64_t s = 0; s < rows; ++s) {
    T const* const from = head_row<T>(tensor, batch, b, head, dim, first + s);
    for (std::int64_t d = 0; d < dim; ++d) to[s * dim + d] = factor * to_float(from[d]);
  }
}

/// The reverse of pack_head; adds to what is there when `accumulate`.
template <class T>
void unpack_head(float const* from, AttentionTensor const& tensor, std::int64_t batch, std::int64_t b,
                 std::int64_t head, std::int64_t dim, std::int64_t first, std::int64_t rows, float factor,
                 bool accumulate) {
  for (std::int64_t s = 0; s < rows; ++s) {
    T* const to = head_row<T>(tensor, batch, b, head, dim, first + s);
    for (std::int64_t d = 0; d < dim; ++d) {
      float const value = factor * from[s * dim + d];
      to[d] = from_float<T>(accumulate ? to_float(to[d]) + value : value);
    }
  }
}

}  // namespace shardbench::host
