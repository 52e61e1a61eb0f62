#include "kernels/core/cuda/reduce.hpp"
#include "kernels/core/cuda/vec.hpp"
#include "kernels/core/fast_math.hpp"
#include "kernels/kernel_set_cuda.hpp"

namespace shardbench::cuda {
namespace {

/// Columns of this shard that are not padding.
std::int64_t valid_columns(CrossEntropyShape const& shape) {
  return std::clamp<std::int64_t>(shape.valid_vocab - shape.first_column, 0, shape.columns);
}

/// A logit after the soft cap, and its slope from the capped value.
__device__ inline float capped(float logit, float cap) { return cap > 0 ? cap * fast_tanh(logit / cap) : logit; }
__device__ inline float slope_at(float logit, float cap) { return cap > 0 ? 1.0f - logit / cap * (logit / cap) : 1.0f; }

/// One block a token: `body(logit, column)` for this thread's valid columns, 16 bytes at a time where rows are aligned.
template <int width, class T, class Body>
__device__ void for_valid(T const* logits, std::int64_t valid, Body const& body) {
  std::int64_t const packs = valid / width;
  for (std::int64_t p = threadIdx.x; p < packs; p += blockDim.x) {
    float value[width];
    load<width>(logits + p * width, value);
    for (int j = 0; j < width; ++j) body(value[j], p * width + j);
  }
  for (std::int64_t c = packs * width + threadIdx.x; c < valid; c += blockDim.x) body(to_float(logits[c]), c);
}

template <class T, int width>
__global__ void max_kernel(T const* logits, float* maximum, std::int64_t columns, std::int64_t valid, float cap) {
  float highest = -INFINITY;
  for_valid<width>(logits + blockIdx.x * columns, valid,
                   [&](float logit, std::int64_t) { highest = fmaxf(highest, logit); });
  highest = block_max(highest);
  // The cap is monotonic; a shard without columns keeps its -infinity.
  if (threadIdx.x == 0) maximum[blockIdx.x] = highest > -INFINITY ? capped(highest, cap) : highest;
}

template <class T, int width>
__global__ void sum_kernel(T const* logits, std::int32_t const* targets, float const* maximum, float* sums,
                           std::int64_t columns, std::int64_t valid, std::int64_t first_column, float cap) {
  std::int64_t const token = blockIdx.x, tokens = gridDim.x;
  float const shift = maximum[token];
  std::int64_t const target = targets[token] < 0 ? -1 : targets[token] - first_column;
  float sum = 0, target_logit = 0;
  for_valid<width>(logits + token * columns, valid, [&](float logit, std::int64_t column) {
    float const shifted = capped(logit, cap) - shift;
    sum += fast_exp(shifted);
    if (column == target) target_logit = shifted;
  });
  sum = block_sum(sum);
  target_logit = block_sum(target_logit);
  if (threadIdx.x != 0) return;
  sums[token] = sum;
  sums[tokens + token] = target_logit;
}

__global__ void loss_kernel(float const* sums, std::int32_t const* targets, float* loss, std::int64_t tokens,
                            float scale, bool accumulate) {
  float sum = 0;
  for (std::int64_t t = threadIdx.x; t < tokens; t += blockDim.x)
    if (targets[t] >= 0) sum += logf(sums[t]) - sums[tokens + t];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *loss = scale * sum + (accumulate ? *loss : 0.0f);
}

template <class T, int width>
__global__ void backward_kernel(T const* logits, std::int32_t const* targets, float const* maximum, float const* sums,
                                T* dlogits, std::int64_t columns, std::int64_t valid, std::int64_t first_column,
                                float scale, float cap) {
  std::int64_t const token = blockIdx.x;
  bool const counted = targets[token] >= 0;
  std::int64_t const target = targets[token] - first_column;
  float const shift = maximum[token], factor = counted ? scale / sums[token] : 0.0f;
  std::int64_t const step = std::int64_t{blockDim.x} * width;
  for (std::int64_t c = std::int64_t{threadIdx.x} * width; c < columns; c += step) {
    float value[width];
    load<width>(logits + token * columns + c, value);
    for (int j = 0; j < width; ++j) {
      bool const takes_part = counted && c + j < valid;
      float const logit = capped(value[j], cap);
      float const gradient = factor * fast_exp(logit - shift) - (c + j == target ? scale : 0.0f);
      value[j] = takes_part ? gradient * slope_at(logit, cap) : 0.0f;
    }
    store<width>(dlogits + token * columns + c, value);
  }
}

/// Calls `run(T{}, width)` with the widest access that the rows allow.
template <class Run>
void with_width(CrossEntropyShape const& shape, void const* other, Run const& run) {
  with_float_type(shape.dtype, [&](auto type) {
    constexpr int width = pack_width<decltype(type)>;
    if (shape.columns % width == 0 && all_aligned(shape.logits, other)) {
      run(type, std::integral_constant<int, width>{});
    } else {
      run(type, std::integral_constant<int, 1>{});
    }
  });
}

std::size_t logit_bytes(CrossEntropyShape const& s) {
  return span_bytes(s.tokens, s.columns, s.columns, bytes_of(s.dtype));
}
std::size_t token_bytes(CrossEntropyShape const& s) { return s.tokens * sizeof(float); }

}  // namespace

void cross_entropy_max(Stream& stream, CrossEntropyMaxArgs const& args) {
  CrossEntropyShape const& s = args.shape;
  if (s.tokens == 0) return;
  declare_access(stream.native(), {reads(s.logits, logit_bytes(s)), writes(args.maximum, token_bytes(s))});
  with_width(s, nullptr, [&](auto type, auto width) {
    using T = decltype(type);
    launch(max_kernel<T, decltype(width)::value>, dim3(grid_of_rows(s.tokens)), block_for(s.columns / width),
           cuda_stream(stream), static_cast<T const*>(s.logits), args.maximum, s.columns, valid_columns(s), s.softcap);
  });
}

void cross_entropy_sum(Stream& stream, CrossEntropySumArgs const& args) {
  CrossEntropyShape const& s = args.shape;
  if (s.tokens == 0) return;
  declare_access(stream.native(), {reads(s.logits, logit_bytes(s)), reads(s.targets, token_bytes(s)),
                                   reads(args.maximum, token_bytes(s)), writes(args.sums, 2 * token_bytes(s))});
  with_width(s, nullptr, [&](auto type, auto width) {
    using T = decltype(type);
    launch(sum_kernel<T, decltype(width)::value>, dim3(grid_of_rows(s.tokens)), block_for(s.columns / width),
           cuda_stream(stream), static_cast<T const*>(s.logits), s.targets, args.maximum, args.sums, s.columns,
           valid_columns(s), s.first_column, s.softcap);
  });
}

void cross_entropy_loss(Stream& stream, CrossEntropyLossArgs const& args) {
  CrossEntropyShape const& s = args.shape;
  declare_access(stream.native(), {reads(s.targets, token_bytes(s)), reads(args.sums, 2 * token_bytes(s)),
                                   writes(args.loss, sizeof(float))});
  launch(loss_kernel, dim3(1), largest_block, cuda_stream(stream), args.sums, s.targets, args.loss, s.tokens,
         args.scale, args.accumulate);
}

void cross_entropy_backward(Stream& stream, CrossEntropyBackwardArgs const& args) {
  CrossEntropyShape const& s = args.shape;
  if (s.tokens == 0 || s.columns == 0) return;
  declare_access(stream.native(), {reads(s.logits, logit_bytes(s)), reads(s.targets, token_bytes(s)),
                                   reads(args.maximum, token_bytes(s)), reads(args.sums, token_bytes(s)),
                                   writes(args.dlogits, logit_bytes(s))});
  with_width(s, args.dlogits, [&](auto type, auto width) {
    using T = decltype(type);
    launch(backward_kernel<T, decltype(width)::value>, dim3(grid_of_rows(s.tokens)), block_for(s.columns / width),
           cuda_stream(stream), static_cast<T const*>(s.logits), s.targets, args.maximum, args.sums,
           static_cast<T*>(args.dlogits), s.columns, valid_columns(s), s.first_column, args.scale, s.softcap);
  });
}

}  // namespace shardbench::cuda
