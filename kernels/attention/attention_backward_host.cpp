#include "kernels/attention/attention_blocks_host.hpp"
#include "kernels/core/fast_math.hpp"
#include "kernels/core/storage.hpp"
#include "kernels/gemm/sgemm_host.hpp"
#include "kernels/kernel_set_host.hpp"

namespace shardbench::host {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

/// Buffers of a thread: one kv head and its gradients whole, one block of queries, two blocks of scores.
struct Scratch {
  Workspace k, v, dk, dv, q, dq, out, dout, weights, dscores;
  Positions positions;
  float mean[attention_block_q];
};

/// A kv head in dense fp32 rows, and the gradients that its query heads add to.
struct KeyValue {
  float *k, *v, *dk, *dv;
};

/// scores become the softmax weights, dweights the gradient of scale * q.k (`mean` = sum of dout * out of the row).
template <bool masked>
void gradient_row(QueryBlock const& block, KeyRange const& keys, std::int64_t i, float softcap, float log_sum_exp,
                  float mean, float* score, float* dweight) {
  std::int64_t const n = keys.size();
  for (std::int64_t j = 0; j < n; ++j) {
    float value = score[j], slope = 1.0f;
    if (softcap > 0) {
      float const bounded = fast_tanh(value / softcap);
      value = softcap * bounded;
      slope = 1.0f - bounded * bounded;
    }
    float weight = fast_exp(value - log_sum_exp);
    if constexpr (masked) weight = block.sees(i, keys.begin + j) ? weight : 0.0f;
    score[j] = weight;
    dweight[j] = weight * (dweight[j] - mean) * slope;
  }
}

/// mean[i] = sum of dout * out over the row: what the softmax gradient subtracts.
void row_means(std::int64_t rows, std::int64_t dim, float const* out, float const* dout, float* mean) {
  for (std::int64_t i = 0; i < rows; ++i) {
    mean[i] = sum_row(dim, [&](std::int64_t d) { return out[i * dim + d] * dout[i * dim + d]; });
  }
}

/// Turns the block's scores and weight gradients into weights and score gradients, row by row.
void gradient_block(AttentionShape const& shape, QueryBlock const& block, KeyRange const& keys,
                    float const* log_sum_exp, float const* mean, float* weights, float* dscores) {
  for (std::int64_t i = 0; i < block.rows(); ++i) {
    float* const weight = weights + i * attention_block_k;
    float* const dscore = dscores + i * attention_block_k;
    if (log_sum_exp[i] == minus_infinity) {  // this query sees no key at all
      std::fill_n(weight, keys.size(), 0.0f);
      std::fill_n(dscore, keys.size(), 0.0f);
    } else if (keys.masked) {
      gradient_row<true>(block, keys, i, shape.softcap, log_sum_exp[i], mean[i], weight, dscore);
    } else {
      gradient_row<false>(block, keys, i, shape.softcap, log_sum_exp[i], mean[i], weight, dscore);
    }
  }
}

template <class T>
void backward_block(AttentionBackwardArgs const& args, std::int64_t b, std::int64_t head, QueryBlock const& block,
                    KeyValue const& kv, Scratch& scratch) {
  AttentionShape const& shape = args.shape;
  std::int64_t const rows = block.rows(), dim = shape.head_dim, value_dim = shape.value_dim;
  float* const q = scratch.q.floats(attention_block_q * dim);
  float* const dq = scratch.dq.floats(attention_block_q * dim);
  float* const out = scratch.out.floats(attention_block_q * value_dim);
  float* const dout = scratch.dout.floats(attention_block_q * value_dim);
  float* const weights = scratch.weights.floats(attention_block_q * attention_block_k);
  float* const dscores = scratch.dscores.floats(attention_block_q * attention_block_k);
  pack_head<T>(args.q, shape.batch, b, head, dim, block.first(), rows, shape.scale, q);
  pack_head<T>(args.out, shape.batch, b, head, value_dim, block.first(), rows, 1.0f, out);
  pack_head<T>(args.dout, shape.batch, b, head, value_dim, block.first(), rows, 1.0f, dout);
  row_means(rows, value_dim, out, dout, scratch.mean);
  std::fill_n(dq, rows * dim, 0.0f);
  float const* const log_sum_exp = args.log_sum_exp + statistic_row(shape, b, head) + block.first();
  constexpr std::int64_t stride = attention_block_k;
  for (KeyRange keys = block.next(0); keys.size() > 0; keys = block.next(keys.end)) {
    std::int64_t const n = keys.size();
    float const* const k = kv.k + keys.begin * dim;
    float const* const v = kv.v + keys.begin * value_dim;
    sgemm(rows, n, dim, 1.0f, {q, dim}, {k, dim, true}, 0.0f, weights, stride);
    sgemm(rows, n, value_dim, 1.0f, {dout, value_dim}, {v, value_dim, true}, 0.0f, dscores, stride);
    gradient_block(shape, block, keys, log_sum_exp, scratch.mean, weights, dscores);
    sgemm(rows, dim, n, 1.0f, {dscores, stride}, {k, dim}, 1.0f, dq, dim);
    sgemm(n, dim, rows, 1.0f, {dscores, stride, true}, {q, dim}, 1.0f, kv.dk + keys.begin * dim, dim);
    sgemm(n, value_dim, rows, 1.0f, {weights, stride, true}, {dout, value_dim}, 1.0f, kv.dv + keys.begin * value_dim,
          value_dim);
  }
  unpack_head<T>(dq, args.dq, shape.batch, b, head, dim, block.first(), rows, shape.scale, args.accumulate_q);
}

template <class T>
void backward(AttentionBackwardArgs const& args) {
  thread_local Scratch scratch;
  AttentionShape const& shape = args.shape;
  std::int64_t const group = shape.heads / shape.kv_heads, k_size = shape.seq_k * shape.head_dim,
                     v_size = shape.seq_k * shape.value_dim;
  KeyValue const kv_rows{scratch.k.floats(k_size), scratch.v.floats(v_size), scratch.dk.floats(k_size),
                         scratch.dv.floats(v_size)};
  scratch.positions.assign(shape);
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t kv = 0; kv < shape.kv_heads; ++kv) {
      pack_head<T>(args.k, shape.batch, b, kv, shape.head_dim, 0, shape.seq_k, 1.0f, kv_rows.k);
      pack_head<T>(args.v, shape.batch, b, kv, shape.value_dim, 0, shape.seq_k, 1.0f, kv_rows.v);
      std::fill_n(kv_rows.dk, k_size, 0.0f);
      std::fill_n(kv_rows.dv, v_size, 0.0f);
      for (std::int64_t head = kv * group; head < (kv + 1) * group; ++head) {
        for (std::int64_t first = 0; first < shape.seq_q; first += attention_block_q) {
          backward_block<T>(args, b, head, QueryBlock(shape, scratch.positions, first), kv_rows, scratch);
        }
      }
      // q was packed with the scale in it, so dk has it already.
      unpack_head<T>(kv_rows.dk, args.dk, shape.batch, b, kv, shape.head_dim, 0, shape.seq_k, 1.0f, args.accumulate_kv);
      unpack_head<T>(kv_rows.dv, args.dv, shape.batch, b, kv, shape.value_dim, 0, shape.seq_k, 1.0f,
                     args.accumulate_kv);
    }
  }
}

}  // namespace

void attention_backward(AttentionBackwardArgs const& args) {
  AttentionShape const& shape = args.shape;
  if (shape.heads == 0 || shape.batch == 0) return;
  validate_heads(shape);
  with_storage(shape.dtype, "attention", [&]<class T>(T) { backward<T>(args); });
}

}  // namespace shardbench::host
