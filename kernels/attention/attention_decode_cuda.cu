// One query a sequence over a long cache: a block a query head, whose warps go over the keys with a softmax of their
// own each, merged at the end. Reads the cache once and never writes scores.
#include "kernels/attention/attention_decode_cuda.hpp"
#include "kernels/attention/attention_math.hpp"
#include "kernels/core/cuda/reduce.hpp"
#include "kernels/core/cuda/vec.hpp"
#include "kernels/core/fast_math.hpp"

namespace shardbench::cuda {
namespace {

constexpr int decode_warps = 4, lane_values = 8;
constexpr std::int64_t widest_head = 32 * lane_values;

/// A softmax over some keys: highest score, sum of weights, weighted values (lane i holds the dims i, i + 32, ...).
struct Running {
  float highest = -INFINITY, sum = 0, value[lane_values] = {};
};

/// Takes one key in.
template <class T>
__device__ void take_key(AttentionShape const& s, T const* key, T const* value, float const (&q)[lane_values],
                         Running& r) {
  int const lane = static_cast<int>(threadIdx.x % 32);
  float product = 0;
  for (int i = 0; i < lane_values; ++i)
    if (lane + 32 * i < s.head_dim) product += q[i] * to_float(key[lane + 32 * i]);
  float score = warp_reduce<Sum>(product);
  if (s.softcap > 0) score = s.softcap * fast_tanh(score / s.softcap);
  float const highest = fmaxf(r.highest, score), before = fast_exp(r.highest - highest),
              weight = fast_exp(score - highest);
  r.highest = highest;
  r.sum = r.sum * before + weight;
  for (int i = 0; i < lane_values; ++i)
    if (lane + 32 * i < s.value_dim) r.value[i] = r.value[i] * before + weight * to_float(value[lane + 32 * i]);
}

template <class T>
__global__ void decode_kernel(AttentionForwardArgs d) {
  AttentionShape const& s = d.shape;
  __shared__ float highest[decode_warps], sums[decode_warps], values[decode_warps][widest_head];
  std::int64_t const head = blockIdx.x, b = blockIdx.y, kv = head / (s.heads / s.kv_heads);
  int const lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  float q[lane_values];
  for (int i = 0; i < lane_values; ++i)
    q[i] = lane + 32 * i < s.head_dim
               ? s.scale * to_float(as<T>(d.q.data)[b * d.q.row_stride + head * s.head_dim + lane + 32 * i])
               : 0.0f;
  Visibility const visible = visibility_of(s);
  std::int64_t const position = q_position(s, 0);
  Running r;
  for (std::int64_t j = warp; j < s.seq_k; j += decode_warps) {
    if (!visible(position, k_position(s, j))) continue;  // the same for the whole warp
    std::int64_t const row = j * s.batch + b;
    take_key(s, as<T>(d.k.data) + row * d.k.row_stride + kv * s.head_dim,
             as<T>(d.v.data) + row * d.v.row_stride + kv * s.value_dim, q, r);
  }
  if (lane == 0) {
    highest[warp] = r.highest;
    sums[warp] = r.sum;
  }
  for (int i = 0; i < lane_values; ++i) values[warp][lane + 32 * i] = r.value[i];
  __syncthreads();
  float top = -INFINITY, sum = 0;
  for (int w = 0; w < decode_warps; ++w) top = fmaxf(top, highest[w]);
  bool const sees_any = top > -INFINITY;
  for (int w = 0; w < decode_warps && sees_any; ++w) sum += sums[w] * fast_exp(highest[w] - top);
  for (std::int64_t c = threadIdx.x; c < s.value_dim; c += blockDim.x) {
    float total = 0;
    for (int w = 0; w < decode_warps && sees_any; ++w) total += values[w][c] * fast_exp(highest[w] - top);
    as<T>(d.out.data)[b * d.out.row_stride + head * s.value_dim + c] = from_float<T>(sees_any ? total / sum : 0.0f);
  }
  if (d.log_sum_exp && threadIdx.x == 0)
    d.log_sum_exp[statistic_row(s, b, head)] = sees_any ? top + logf(sum) : -INFINITY;
}

}  // namespace

bool decode_fits(AttentionShape const& s) {
  return s.seq_q == 1 && s.seq_k > 0 && s.head_dim <= widest_head && s.value_dim <= widest_head;
}

void decode_attention(CudaStream& stream, AttentionForwardArgs const& args) {
  AttentionShape const& s = args.shape;
  std::size_t const element = bytes_of(s.dtype);
  auto const span = [&](std::int64_t seq, AttentionTensor const& t, std::int64_t cols) {
    return span_bytes(seq * s.batch, cols, t.row_stride, element);
  };
  std::int64_t const statistics = statistic_row(s, s.batch - 1, s.heads - 1) + 1;
  declare_access(stream.native(), {reads(args.q.data, span(1, args.q, s.heads * s.head_dim)),
                                   reads(args.k.data, span(s.seq_k, args.k, s.kv_heads * s.head_dim)),
                                   reads(args.v.data, span(s.seq_k, args.v, s.kv_heads * s.value_dim)),
                                   writes(args.out.data, span(1, args.out, s.heads * s.value_dim)),
                                   writes(args.log_sum_exp, statistics * sizeof(float))});
  with_float_type(s.dtype, [&](auto type) {
    using T = decltype(type);
    launch(decode_kernel<T>, dim3(static_cast<unsigned>(s.heads), static_cast<unsigned>(s.batch)), 32 * decode_warps,
           stream, args);
  });
}

}  // namespace shardbench::cuda
