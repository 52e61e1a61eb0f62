// Attention by query blocks: batched products around one fused kernel, scores only ever of one tile.
#include "kernels/attention/attention_decode_cuda.hpp"
#include "kernels/attention/attention_math.hpp"
#include "kernels/attention/attention_tiles_cuda.hpp"
#include "kernels/core/cuda/reduce.hpp"
#include "kernels/core/cuda/vec.hpp"
#include "kernels/core/fast_math.hpp"
#include "kernels/kernel_set_cuda.hpp"

namespace shardbench::cuda {
namespace {

/// Where a tile's scores lie: row (head, query) starts at (head * queries + query) * stride.
struct ScoreTile {
  AttentionShape shape;
  HeadTile heads;
  TokenRange queries, keys;
  std::int64_t stride = 0;

  __device__ std::int64_t row_offset() const { return (std::int64_t{blockIdx.y} * gridDim.x + blockIdx.x) * stride; }
  __device__ std::int64_t query() const { return queries.begin + blockIdx.x; }
  __device__ std::int64_t head() const {
    return heads.first_kv_head * heads.group + heads.member + std::int64_t{blockIdx.y} * heads.group;
  }
  __device__ std::int64_t statistic() const { return statistic_row(shape, heads.b, head()) + query(); }
  __device__ bool visible(std::int64_t position, std::int64_t key) const {
    return visibility_of(shape)(position, k_position(shape, keys.begin + key));
  }
};

/// A score after the softcap.
__device__ inline float capped(float score, float cap) { return cap > 0 ? cap * fast_tanh(score / cap) : score; }

/// Scaled scores become attention weights; one block a row. Weights of T may lie where the scores did when T is float.
template <class T>
__global__ void softmax_kernel(ScoreTile tile, float const* scores, T* weights, float* log_sum_exp) {
  float const* const row = scores + tile.row_offset();
  T* const out = weights + tile.row_offset();
  std::int64_t const position = q_position(tile.shape, tile.query()), keys = tile.keys.end - tile.keys.begin;
  float const cap = tile.shape.softcap;
  float highest = -INFINITY;
  for (std::int64_t k = threadIdx.x; k < keys; k += blockDim.x)
    if (tile.visible(position, k)) highest = fmaxf(highest, row[k]);
  highest = capped(block_max(highest), cap);  // the cap is monotonic
  bool const sees_any = highest > -INFINITY;
  float sum = 0;
  for (std::int64_t k = threadIdx.x; k < keys; k += blockDim.x)
    if (tile.visible(position, k)) sum += fast_exp(capped(row[k], cap) - highest);
  sum = block_sum(sum);
  float const factor = sees_any ? 1.0f / sum : 0.0f;
  for (std::int64_t k = threadIdx.x; k < keys; k += blockDim.x) {
    float const weight = tile.visible(position, k) ? fast_exp(capped(row[k], cap) - highest) * factor : 0.0f;
    out[k] = from_float<T>(weight);
  }
  if (log_sum_exp && threadIdx.x == 0) log_sum_exp[tile.statistic()] = sees_any ? highest + logf(sum) : -INFINITY;
}

/// Rows of one (sequence, head) of an attention tensor.
template <class T>
__device__ T const* query_row(ScoreTile const& tile, AttentionTensor const& tensor, std::int64_t dim) {
  std::int64_t const row = tile.query() * tile.shape.batch + tile.heads.b;
  return static_cast<T const*>(tensor.data) + row * tensor.row_stride + tile.head() * dim;
}

/// From scores and dweights: weights and dscores (already times the scale); one block a row.
template <class T>
__global__ void softmax_backward_kernel(ScoreTile tile, AttentionTensor out, AttentionTensor dout,
                                        float const* log_sum_exp, float const* scores, float const* dweights,
                                        T* weights, T* dscores) {
  T const* const o = query_row<T>(tile, out, tile.shape.value_dim);
  T const* const gradient = query_row<T>(tile, dout, tile.shape.value_dim);
  float product = 0;
  for (std::int64_t d = threadIdx.x; d < tile.shape.value_dim; d += blockDim.x)
    product += to_float(o[d]) * to_float(gradient[d]);
  product = block_sum(product);
  std::int64_t const offset = tile.row_offset(), keys = tile.keys.end - tile.keys.begin;
  std::int64_t const position = q_position(tile.shape, tile.query());
  float const cap = tile.shape.softcap, statistic = log_sum_exp[tile.statistic()];
  bool const sees_any = statistic > -INFINITY;
  for (std::int64_t k = threadIdx.x; k < keys; k += blockDim.x) {
    bool const seen = sees_any && tile.visible(position, k);
    float const raw = scores[offset + k];
    float const bounded = cap > 0 ? fast_tanh(raw / cap) : 0.0f;
    float const weight = seen ? fast_exp((cap > 0 ? cap * bounded : raw) - statistic) : 0.0f;
    float const slope = (1.0f - bounded * bounded) * tile.shape.scale;
    float const dscore = seen ? weight * (dweights[offset + k] - product) * slope : 0.0f;
    weights[offset + k] = from_float<T>(weight);
    dscores[offset + k] = from_float<T>(dscore);
  }
}

/// Adds or writes fp32 gradients [head][key][dim] to a tensor of T.
template <class T>
struct StoreGradient {
  float const* from;
  T* to;  ///< at the tile's first key and head
  std::int64_t keys, dim, row_stride;
  bool accumulate;

  template <int width>
  __device__ void at(std::int64_t i) const {
    static_assert(width == 1);
    std::int64_t const d = i % dim, key = i / dim % keys, head = i / dim / keys;
    T* const element = to + key * row_stride + head * dim + d;
    *element = from_float<T>(from[i] + (accumulate ? to_float(*element) : 0.0f));
  }
};

/// Outputs of queries that have no key at all.
template <class T>
struct NoKeys {
  AttentionTensor out;
  float* log_sum_exp;
  std::int64_t cols, statistics, seq, stride;

  template <int width>
  __device__ void at(std::int64_t i) const {
    static_cast<T*>(out.data)[i / cols * out.row_stride + i % cols] = from_float<T>(0.0f);
    if (log_sum_exp && i < statistics) log_sum_exp[i / seq * stride + i % seq] = -INFINITY;
  }
};

/// Pieces of the scratch memory, in order.
class ScratchCursor {
 public:
  explicit ScratchCursor(Scratch scratch) : scratch_(scratch) {}
  template <class T>
  T* take(std::int64_t count) {
    std::size_t const bytes = (count * sizeof(T) + 15) / 16 * 16;
    VALIDATE(used_ + bytes <= scratch_.bytes, "attention tiles exceed the scratch memory");
    void* const taken = scratch_.data + used_;
    used_ += bytes;
    return static_cast<T*>(taken);
  }

 private:
  Scratch scratch_;
  std::size_t used_ = 0;
};

Matrix tile_matrix(void const* data, ScoreTile const& tile, Dtype dtype) {
  return {data, tile.stride, tile.queries.size() * tile.stride, dtype};
}

std::size_t tile_bytes(ScoreTile const& tile, std::size_t element) {
  return tile.heads.heads * tile.queries.size() * tile.stride * element;
}

std::size_t statistic_bytes(AttentionShape const& s) {
  return (statistic_row(s, s.batch - 1, s.heads - 1) + s.seq_q) * sizeof(float);
}

/// Calls `body` for each range of `step` of [range.begin, range.end).
template <class Body>
void for_ranges(TokenRange range, std::int64_t step, Body const& body) {
  for (std::int64_t at = range.begin; at < range.end; at += step) body(TokenRange{at, std::min(range.end, at + step)});
}

/// scores = scale * q k^T of one tile.
void multiply_scores(CudaStream& stream, ScoreTile const& tile, AttentionTensor const& q, AttentionTensor const& k,
                     float* scores) {
  AttentionShape const& s = tile.shape;
  matmul(stream, {.a = query_matrix(s, q, tile.heads, tile.queries, s.head_dim),
                  .b = transpose(kv_matrix(s, k, tile.heads, tile.keys, s.head_dim)),
                  .c = tile_matrix(scores, tile, Dtype::f32),
                  .m = tile.queries.size(),
                  .n = tile.keys.size(),
                  .k = s.head_dim,
                  .batch = tile.heads.heads,
                  .alpha = s.scale});
}

template <class T>
void forward_tile(CudaStream& stream, AttentionForwardArgs const& args, ScoreTile const& tile) {
  AttentionShape const& s = args.shape;
  ScratchCursor scratch(stream.scratch());
  std::int64_t const count = tile.heads.heads * tile.queries.size() * tile.stride;
  auto* const scores = scratch.take<float>(count);
  T* weights = nullptr;
  if constexpr (std::is_same_v<T, float>) {
    weights = scores;
  } else {
    weights = scratch.take<T>(count);
  }
  multiply_scores(stream, tile, args.q, args.k, scores);
  declare_access(stream.native(),
                 {writes(scores, tile_bytes(tile, sizeof(float))), writes(weights, tile_bytes(tile, sizeof(T))),
                  writes(args.log_sum_exp, statistic_bytes(s))});
  launch(softmax_kernel<T>, dim3(static_cast<unsigned>(tile.queries.size()), static_cast<unsigned>(tile.heads.heads)),
         block_for(tile.keys.size()), stream, tile, scores, weights, args.log_sum_exp);
  matmul(stream, {.a = tile_matrix(weights, tile, s.dtype),
                  .b = kv_matrix(s, args.v, tile.heads, tile.keys, s.value_dim),
                  .c = query_matrix(s, args.out, tile.heads, tile.queries, s.value_dim),
                  .m = tile.queries.size(),
                  .n = s.value_dim,
                  .k = tile.keys.size(),
                  .batch = tile.heads.heads});
}

/// The fp32 gradients of a tile's keys and values.
struct KeyGradients {
  float *dk, *dv;
};

Matrix gradient_matrix(float* data, TokenRange all, TokenRange rows, std::int64_t dim) {
  return {data + (rows.begin - all.begin) * dim, dim, all.size() * dim, Dtype::f32};
}

/// Adds what one query tile gives to dq, and to the gradients of the keys in `all_keys`.
template <class T>
void backward_tile(CudaStream& stream, AttentionBackwardArgs const& args, ScoreTile const& tile, TokenRange all_keys,
                   KeyGradients gradients, ScratchCursor scratch, bool add_to_dq) {
  AttentionShape const& s = args.shape;
  std::int64_t const count = tile.heads.heads * tile.queries.size() * tile.stride;
  auto* const scores = scratch.take<float>(count);
  auto* const dweights = scratch.take<float>(count);
  T *weights = nullptr, *dscores = nullptr;
  if constexpr (std::is_same_v<T, float>) {
    weights = scores;
    dscores = dweights;
  } else {
    weights = scratch.take<T>(count);
    dscores = scratch.take<T>(count);
  }
  std::int64_t const queries = tile.queries.size(), keys = tile.keys.size(), heads = tile.heads.heads;
  Matrix const dout = query_matrix(s, args.dout, tile.heads, tile.queries, s.value_dim);
  multiply_scores(stream, tile, args.q, args.k, scores);
  matmul(stream, {.a = dout,
                  .b = transpose(kv_matrix(s, args.v, tile.heads, tile.keys, s.value_dim)),
                  .c = tile_matrix(dweights, tile, Dtype::f32),
                  .m = queries,
                  .n = keys,
                  .k = s.value_dim,
                  .batch = heads});
  declare_access(
      stream.native(),
      {reads(args.log_sum_exp, statistic_bytes(s)), writes(scores, tile_bytes(tile, sizeof(float))),
       writes(dweights, tile_bytes(tile, sizeof(float))), writes(weights, tile_bytes(tile, sizeof(T))),
       writes(dscores, tile_bytes(tile, sizeof(T))),
       reads(args.out.data, span_bytes(s.seq_q * s.batch, s.heads * s.value_dim, args.out.row_stride, sizeof(T)))});
  launch(softmax_backward_kernel<T>, dim3(static_cast<unsigned>(queries), static_cast<unsigned>(heads)),
         block_for(keys), stream, tile, args.out, args.dout, args.log_sum_exp, scores, dweights, weights, dscores);
  matmul(stream, {.a = tile_matrix(dscores, tile, s.dtype),
                  .b = kv_matrix(s, args.k, tile.heads, tile.keys, s.head_dim),
                  .c = query_matrix(s, args.dq, tile.heads, tile.queries, s.head_dim),
                  .m = queries,
                  .n = s.head_dim,
                  .k = keys,
                  .batch = heads,
                  .beta = add_to_dq ? 1.0f : 0.0f});
  matmul(stream, {.a = transpose(tile_matrix(dscores, tile, s.dtype)),
                  .b = query_matrix(s, args.q, tile.heads, tile.queries, s.head_dim),
                  .c = gradient_matrix(gradients.dk, all_keys, tile.keys, s.head_dim),
                  .m = keys,
                  .n = s.head_dim,
                  .k = queries,
                  .batch = heads,
                  .beta = 1});
  matmul(stream, {.a = transpose(tile_matrix(weights, tile, s.dtype)),
                  .b = dout,
                  .c = gradient_matrix(gradients.dv, all_keys, tile.keys, s.value_dim),
                  .m = keys,
                  .n = s.value_dim,
                  .k = queries,
                  .batch = heads,
                  .beta = 1});
}

template <class T>
void store_gradient(CudaStream& stream, AttentionBackwardArgs const& args, AttentionTensor const& to,
                    HeadTile const& heads, TokenRange keys, std::int64_t dim, float const* from) {
  Matrix const target = kv_matrix(args.shape, to, heads, keys, dim);
  std::int64_t const count = heads.heads * keys.size() * dim;
  declare_access(stream.native(),
                 {reads(from, count * sizeof(float)),
                  writes(target.data, span_bytes(keys.size(), heads.heads * dim, target.row_stride, sizeof(T)))});
  StoreGradient<T> const body{
      from, static_cast<T*>(const_cast<void*>(target.data)), keys.size(), dim, target.row_stride, args.accumulate_kv};
  for_each<1>(body, count, false, stream);
}

/// Keys that both the query tile may see and the key tile holds.
TokenRange intersect(TokenRange a, TokenRange b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }

/// All queries against the keys of one tile, for some heads of one sequence.
template <class T>
void backward_keys(CudaStream& stream, AttentionBackwardArgs const& args, AttentionTiles const& tiles, HeadTile heads,
                   TokenRange keys) {
  AttentionShape const& s = args.shape;
  ScratchCursor scratch(stream.scratch());
  std::int64_t const dk_count = heads.heads * keys.size() * s.head_dim;
  std::int64_t const dv_count = heads.heads * keys.size() * s.value_dim;
  KeyGradients const gradients{scratch.take<float>(dk_count), scratch.take<float>(dv_count)};
  auto const zero = [&](float* data, std::int64_t count) {
    CUDA_CHECK(cudaMemsetAsync(data, 0, count * sizeof(float), stream.get()));
  };
  zero(gradients.dk, dk_count);
  zero(gradients.dv, dv_count);
  for (heads.member = 0; heads.member < heads.group; ++heads.member) {
    for_ranges({0, s.seq_q}, tiles.queries, [&](TokenRange queries) {
      TokenRange const all = visible_keys(s, queries);
      TokenRange seen = intersect(all, keys);
      // The first key tile writes dq; it must do so even where it has nothing to add.
      bool const first = keys.begin == 0;
      if (seen.size() <= 0 && !first) return;
      if (seen.size() <= 0) seen = {keys.begin, keys.begin + 1};
      ScoreTile const tile{s, heads, queries, seen, score_stride(seen.size())};
      backward_tile<T>(stream, args, tile, keys, gradients, scratch, args.accumulate_q || !first);
    });
  }
  store_gradient<T>(stream, args, args.dk, heads, keys, s.head_dim, gradients.dk);
  store_gradient<T>(stream, args, args.dv, heads, keys, s.value_dim, gradients.dv);
}

/// Calls `body` for each tile of kv heads of each sequence.
template <class Body>
void for_head_tiles(AttentionShape const& s, AttentionTiles const& tiles, Body const& body) {
  for (std::int64_t b = 0; b < s.batch; ++b)
    for_ranges({0, s.kv_heads}, tiles.heads, [&](TokenRange kv) {
      body(HeadTile{b, kv.begin, kv.size(), 0, s.heads / s.kv_heads});
    });
}

bool is_empty(AttentionShape const& s) { return s.seq_q == 0 || s.batch == 0 || s.heads == 0 || s.kv_heads == 0; }

}  // namespace

void attention_forward(Stream& stream, AttentionForwardArgs const& args) {
  AttentionShape const& s = args.shape;
  if (is_empty(s) || s.value_dim == 0) return;
  CudaStream& queue = cuda_stream(stream);
  if (decode_fits(s)) return decode_attention(queue, args);
  with_float_type(s.dtype, [&](auto type) {
    using T = decltype(type);
    if (s.seq_k == 0) {
      NoKeys<T> const body{args.out, args.log_sum_exp,      s.heads * s.value_dim, s.batch * s.heads * s.seq_q,
                           s.seq_q,  statistic_row(s, 0, 1)};
      return for_each<1>(body, s.seq_q * s.batch * body.cols, false, queue);
    }
    AttentionTiles const tiles = forward_tiles(s, queue.scratch().bytes);
    for_head_tiles(s, tiles, [&](HeadTile heads) {
      for (heads.member = 0; heads.member < heads.group; ++heads.member)
        for_ranges({0, s.seq_q}, tiles.queries, [&](TokenRange queries) {
          TokenRange const keys = visible_keys(s, queries);
          forward_tile<T>(queue, args, ScoreTile{s, heads, queries, keys, score_stride(keys.size())});
        });
    });
  });
}

void attention_backward(Stream& stream, AttentionBackwardArgs const& args) {
  AttentionShape const& s = args.shape;
  if (is_empty(s) || s.value_dim == 0 || s.head_dim == 0) return;
  CudaStream& queue = cuda_stream(stream);
  with_float_type(s.dtype, [&](auto type) {
    using T = decltype(type);
    if (s.seq_k == 0) {
      NoKeys<T> const body{args.dq, nullptr, s.heads * s.head_dim, 0, s.seq_q, s.seq_q};
      if (!args.accumulate_q) for_each<1>(body, s.seq_q * s.batch * body.cols, false, queue);
      return;
    }
    AttentionTiles const tiles = backward_tiles(s, queue.scratch().bytes);
    for_head_tiles(s, tiles, [&](HeadTile const& heads) {
      for_ranges({0, s.seq_k}, tiles.keys, [&](TokenRange keys) { backward_keys<T>(queue, args, tiles, heads, keys); });
    });
  });
}

}  // namespace shardbench::cuda
