#include "kernels/core/cuda/reduce.hpp"
#include "kernels/core/cuda/vec.hpp"
#include "kernels/core/fast_math.hpp"
#include "kernels/cross_entropy/cross_entropy_math.hpp"
#include "kernels/kernel_set_cuda.hpp"

namespace shardbench::cuda {
namespace {

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
__global__ void max_kernel(CrossEntropyMaxArgs a, std::int64_t valid) {
  float highest = -INFINITY;
  for_valid<width>(as<T>(a.shape.logits) + blockIdx.x * a.shape.columns, valid,
                   [&](float logit, std::int64_t) { highest = fmaxf(highest, logit); });
  highest = block_max(highest);
  // The cap is monotonic; a shard without columns keeps its -infinity.
  if (threadIdx.x == 0) a.maximum[blockIdx.x] = highest > -INFINITY ? capped(highest, a.shape.softcap) : highest;
}

template <class T, int width>
__global__ void sum_kernel(CrossEntropySumArgs a, std::int64_t valid) {
  CrossEntropyShape const& s = a.shape;
  std::int64_t const token = blockIdx.x, tokens = gridDim.x;
  float const shift = a.maximum[token];
  std::int64_t const target = s.targets[token] < 0 ? -1 : s.targets[token] - s.first_column;
  float sum = 0, target_logit = 0;
  for_valid<width>(as<T>(s.logits) + token * s.columns, valid, [&](float logit, std::int64_t column) {
    float const shifted = capped(logit, s.softcap) - shift;
    sum += fast_exp(shifted);
    if (column == target) target_logit = shifted;
  });
  sum = block_sum(sum);
  target_logit = block_sum(target_logit);
  if (threadIdx.x != 0) return;
  a.sums[token] = sum;
  a.sums[tokens + token] = target_logit;
}

__global__ void loss_kernel(CrossEntropyLossArgs a) {
  float sum = 0;
  for (std::int64_t t = threadIdx.x; t < a.shape.tokens; t += blockDim.x)
    if (a.shape.targets[t] >= 0) sum += logf(a.sums[t]) - a.sums[a.shape.tokens + t];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *a.loss = a.scale * sum + (a.accumulate ? *a.loss : 0.0f);
}

template <class T, int width>
__global__ void backward_kernel(CrossEntropyBackwardArgs a, std::int64_t valid) {
  CrossEntropyShape const& s = a.shape;
  std::int64_t const token = blockIdx.x;
  bool const counted = s.targets[token] >= 0;
  std::int64_t const target = s.targets[token] - s.first_column;
  float const shift = a.maximum[token], factor = counted ? a.scale / a.sums[token] : 0.0f;
  std::int64_t const step = std::int64_t{blockDim.x} * width;
  for (std::int64_t c = std::int64_t{threadIdx.x} * width; c < s.columns; c += step) {
    float value[width];
    load<width>(as<T>(s.logits) + token * s.columns + c, value);
    for (int j = 0; j < width; ++j) {
      bool const takes_part = counted && c + j < valid;
      float const logit = capped(value[j], s.softcap);
      float const gradient = factor * fast_exp(logit - shift) - (c + j == target ? a.scale : 0.0f);
      value[j] = takes_part ? gradient * slope_at(logit, s.softcap) : 0.0f;
    }
    store<width>(as<T>(a.dlogits) + token * s.columns + c, value);
  }
}

/// Starts a kernel, as `kernel(T{}, width)` names it, with one block a token: at the widest access that the rows allow.
template <class Args, class Kernel>
void launch_tokens(Stream& stream, Args const& args, void const* other, Kernel const& kernel) {
  CrossEntropyShape const& s = args.shape;
  with_float_type(s.dtype, [&](auto type) {
    constexpr int width = pack_width<decltype(type)>;
    bool const wide = s.columns % width == 0 && all_aligned(s.logits, other);
    launch(wide ? kernel(type, std::integral_constant<int, width>{}) : kernel(type, std::integral_constant<int, 1>{}),
           dim3(grid_of_rows(s.tokens)), block_for(s.columns / (wide ? width : 1)), cuda_stream(stream), args,
           valid_columns(s));
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
  launch_tokens(stream, args, nullptr, []<class T>(T, auto width) { return max_kernel<T, width>; });
}

void cross_entropy_sum(Stream& stream, CrossEntropySumArgs const& args) {
  CrossEntropyShape const& s = args.shape;
  if (s.tokens == 0) return;
  declare_access(stream.native(), {reads(s.logits, logit_bytes(s)), reads(s.targets, token_bytes(s)),
                                   reads(args.maximum, token_bytes(s)), writes(args.sums, 2 * token_bytes(s))});
  launch_tokens(stream, args, nullptr, []<class T>(T, auto width) { return sum_kernel<T, width>; });
}

void cross_entropy_loss(Stream& stream, CrossEntropyLossArgs const& args) {
  CrossEntropyShape const& s = args.shape;
  declare_access(stream.native(), {reads(s.targets, token_bytes(s)), reads(args.sums, 2 * token_bytes(s)),
                                   writes(args.loss, sizeof(float))});
  launch(loss_kernel, dim3(1), largest_block, cuda_stream(stream), args);
}

void cross_entropy_backward(Stream& stream, CrossEntropyBackwardArgs const& args) {
  CrossEntropyShape const& s = args.shape;
  if (s.tokens == 0 || s.columns == 0) return;
  declare_access(stream.native(), {reads(s.logits, logit_bytes(s)), reads(s.targets, token_bytes(s)),
                                   reads(args.maximum, token_bytes(s)), reads(args.sums, token_bytes(s)),
                                   writes(args.dlogits, logit_bytes(s))});
  launch_tokens(stream, args, args.dlogits, []<class T>(T, auto width) { return backward_kernel<T, width>; });
}

}  // namespace shardbench::cuda
