#pragma once
// Attention of one query a sequence over a long cache, on the host: each key and value is read once for all query heads
// of its group, without a copy of the cache.
#include <algorithm>
#include <cmath>

#include "kernels/attention/attention_blocks_host.hpp"
#include "kernels/core/fast_math.hpp"

namespace shardbench::host {

/// One kv head of one sequence: scores of its group's query heads, their softmax, and the weighted values.
template <class T>
class DecodeGroup {
 public:
  DecodeGroup(AttentionForwardArgs const& args, std::int64_t b, std::int64_t kv)
      : args_(args), s_(args.shape), b_(b), kv_(kv), group_(s_.heads / s_.kv_heads) {}

  void run(Workspace& scores, Workspace& rows) {
    std::int64_t const wide = std::max(s_.head_dim, s_.value_dim);
    weights_ = scores.floats(group_ * s_.seq_k);
    q_ = rows.floats(group_ * s_.head_dim + group_ * s_.value_dim + wide);
    out_ = q_ + group_ * s_.head_dim;
    row_ = out_ + group_ * s_.value_dim;
    for (std::int64_t g = 0; g < group_; ++g)
      pack_head<T>(args_.q, s_.batch, b_, kv_ * group_ + g, s_.head_dim, 0, 1, s_.scale, q_ + g * s_.head_dim);
    score();
    std::fill_n(out_, group_ * s_.value_dim, 0.0f);
    for (std::int64_t g = 0; g < group_; ++g) soften(g);
    weigh();
    for (std::int64_t g = 0; g < group_; ++g)
      unpack_head<T>(out_ + g * s_.value_dim, args_.out, s_.batch, b_, kv_ * group_ + g, s_.value_dim, 0, 1, 1.0f,
                     false);
  }

 private:
  void score() {
    Visibility const visible = visibility_of(s_);
    std::int64_t const position = q_position(s_, 0);
    for (std::int64_t j = 0; j < s_.seq_k; ++j) {
      bool const seen = visible(position, k_position(s_, j));
      if (seen) load_row(head_row<T>(args_.k, s_.batch, b_, kv_, s_.head_dim, j), row_, s_.head_dim);
      for (std::int64_t g = 0; g < group_; ++g) {
        float& score = weights_[g * s_.seq_k + j];
        score = -std::numeric_limits<float>::infinity();
        if (!seen) continue;
        float const* const q = q_ + g * s_.head_dim;
        score = sum_row(s_.head_dim, [&](std::int64_t d) { return q[d] * row_[d]; });
        if (s_.softcap > 0) score = s_.softcap * fast_tanh(score / s_.softcap);
      }
    }
  }

  /// Scores of one query head become weights that sum to one; zeros when it sees no key.
  void soften(std::int64_t g) {
    float* const w = weights_ + g * s_.seq_k;
    float const highest = max_row(s_.seq_k, [&](std::int64_t j) { return w[j]; });
    bool const sees_any = highest > -std::numeric_limits<float>::infinity();
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t j = 0; j < s_.seq_k; ++j) {
      w[j] = sees_any ? fast_exp(w[j] - highest) : 0.0f;
      sum += w[j];
    }
    float const factor = sees_any ? 1.0f / sum : 0.0f;
    for (std::int64_t j = 0; j < s_.seq_k; ++j) w[j] *= factor;
    if (args_.log_sum_exp != nullptr)
      args_.log_sum_exp[statistic_row(s_, b_, kv_ * group_ + g)] =
          sees_any ? highest + std::log(sum) : -std::numeric_limits<float>::infinity();
  }

  void weigh() {
    for (std::int64_t j = 0; j < s_.seq_k; ++j) {
      if (weights_[j] == 0) {  // a key outside the window weighs nothing for any head
        bool any = false;
        for (std::int64_t g = 1; g < group_; ++g) any = any || weights_[g * s_.seq_k + j] != 0;
        if (!any) continue;
      }
      load_row(head_row<T>(args_.v, s_.batch, b_, kv_, s_.value_dim, j), row_, s_.value_dim);
      for (std::int64_t g = 0; g < group_; ++g) {
        float const weight = weights_[g * s_.seq_k + j];
        float* const out = out_ + g * s_.value_dim;
#pragma omp simd
        for (std::int64_t d = 0; d < s_.value_dim; ++d) out[d] += weight * row_[d];
      }
    }
  }

  AttentionForwardArgs const& args_;
  AttentionShape const& s_;
  std::int64_t b_, kv_, group_;
  float *weights_ = nullptr, *q_ = nullptr, *out_ = nullptr, *row_ = nullptr;
};

/// The whole of a forward pass with one query a sequence.
template <class T>
void decode(AttentionForwardArgs const& args) {
  thread_local Workspace scores, rows;
  for (std::int64_t b = 0; b < args.shape.batch; ++b)
    for (std::int64_t kv = 0; kv < args.shape.kv_heads; ++kv) DecodeGroup<T>(args, b, kv).run(scores, rows);
}

}  // namespace shardbench::host
