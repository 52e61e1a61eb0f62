#include <cmath>

#include "kernels/attention/attention_blocks_host.hpp"
#include "kernels/attention/attention_decode_host.hpp"
#include "kernels/core/fast_math.hpp"
#include "kernels/core/storage.hpp"
#include "kernels/gemm/sgemm_host.hpp"
#include "kernels/kernel_set_host.hpp"

namespace shardbench::host {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

/// Buffers of a thread: one kv head whole, one block of queries, one block of scores.
struct Scratch {
  Workspace k, v, q, scores, out;
  Positions positions;
  float highest[attention_block_q];
  float sum[attention_block_q];
};

/// scores[i, :] becomes exp(score - running maximum); the row's sum, maximum and output so far are brought up to date.
void softmax_row(QueryBlock const& block, KeyRange const& keys, AttentionShape const& shape, std::int64_t i,
                 float* score, float* out, Scratch& scratch) {
  std::int64_t const n = keys.size();
  if (shape.softcap > 0) {
#pragma omp simd
    for (std::int64_t j = 0; j < n; ++j) score[j] = shape.softcap * fast_tanh(score[j] / shape.softcap);
  }
  if (keys.masked) {
    for (std::int64_t j = 0; j < n; ++j) score[j] = block.sees(i, keys.begin + j) ? score[j] : minus_infinity;
  }
  float const before = scratch.highest[i];
  float const highest = std::max(before, max_row(n, [&](std::int64_t j) { return score[j]; }));
  if (highest == minus_infinity) {
    std::fill_n(score, n, 0.0f);
    return;
  }
  float const correction = fast_exp(before - highest);
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < n; ++j) {
    score[j] = fast_exp(score[j] - highest);
    sum += score[j];
  }
  scratch.highest[i] = highest;
  scratch.sum[i] = scratch.sum[i] * correction + sum;
  if (correction == 1.0f) return;
  for (std::int64_t d = 0; d < shape.value_dim; ++d) out[d] *= correction;
}

/// Writes the block's rows of `out` and their log-sum-exp.
template <class T>
void store_block(AttentionForwardArgs const& args, std::int64_t b, std::int64_t head, QueryBlock const& block,
                 float* out, Scratch const& scratch) {
  AttentionShape const& shape = args.shape;
  for (std::int64_t i = 0; i < block.rows(); ++i) {
    float const sum = scratch.sum[i], inverse = sum > 0 ? 1.0f / sum : 0.0f;
    for (std::int64_t d = 0; d < shape.value_dim; ++d) out[i * shape.value_dim + d] *= inverse;
    if (args.log_sum_exp == nullptr) continue;
    args.log_sum_exp[statistic_row(shape, b, head) + block.first() + i] =
        sum > 0 ? scratch.highest[i] + std::log(sum) : minus_infinity;
  }
  unpack_head<T>(out, args.out, shape.batch, b, head, shape.value_dim, block.first(), block.rows(), 1.0f, false);
}

template <class T>
void forward_block(AttentionForwardArgs const& args, std::int64_t b, std::int64_t head, QueryBlock const& block,
                   float const* k, float const* v, Scratch& scratch) {
  AttentionShape const& shape = args.shape;
  std::int64_t const rows = block.rows();
  float* const q = scratch.q.floats(attention_block_q * shape.head_dim);
  float* const scores = scratch.scores.floats(attention_block_q * attention_block_k);
  float* const out = scratch.out.floats(attention_block_q * shape.value_dim);
  pack_head<T>(args.q, shape.batch, b, head, shape.head_dim, block.first(), rows, shape.scale, q);
  std::fill_n(out, rows * shape.value_dim, 0.0f);
  std::fill_n(scratch.highest, rows, minus_infinity);
  std::fill_n(scratch.sum, rows, 0.0f);
  for (KeyRange keys = block.next(0); keys.size() > 0; keys = block.next(keys.end)) {
    sgemm(rows, keys.size(), shape.head_dim, 1.0f, {q, shape.head_dim},
          {k + keys.begin * shape.head_dim, shape.head_dim, true}, 0.0f, scores, attention_block_k);
    for (std::int64_t i = 0; i < rows; ++i) {
      softmax_row(block, keys, shape, i, scores + i * attention_block_k, out + i * shape.value_dim, scratch);
    }
    sgemm(rows, shape.value_dim, keys.size(), 1.0f, {scores, attention_block_k},
          {v + keys.begin * shape.value_dim, shape.value_dim}, 1.0f, out, shape.value_dim);
  }
  store_block<T>(args, b, head, block, out, scratch);
}

template <class T>
void forward(AttentionForwardArgs const& args) {
  thread_local Scratch scratch;
  AttentionShape const& shape = args.shape;
  std::int64_t const group = shape.heads / shape.kv_heads;
  float* const k = scratch.k.floats(shape.seq_k * shape.head_dim);
  float* const v = scratch.v.floats(shape.seq_k * shape.value_dim);
  scratch.positions.assign(shape);
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t kv = 0; kv < shape.kv_heads; ++kv) {
      pack_head<T>(args.k, shape.batch, b, kv, shape.head_dim, 0, shape.seq_k, 1.0f, k);
      pack_head<T>(args.v, shape.batch, b, kv, shape.value_dim, 0, shape.seq_k, 1.0f, v);
      for (std::int64_t head = kv * group; head < (kv + 1) * group; ++head) {
        for (std::int64_t first = 0; first < shape.seq_q; first += attention_block_q) {
          forward_block<T>(args, b, head, QueryBlock(shape, scratch.positions, first), k, v, scratch);
        }
      }
    }
  }
}

}  // namespace

void attention_forward(AttentionForwardArgs const& args) {
  AttentionShape const& shape = args.shape;
  if (shape.heads == 0 || shape.seq_q == 0 || shape.batch == 0) return;
  validate_heads(shape);
  with_storage(shape.dtype, "attention", [&]<class T>(T) {
    if (shape.seq_q == 1)
      decode<T>(args);
    else
      forward<T>(args);
  });
}

}  // namespace shardbench::host
