#include "kernels/activation/activation_math.hpp"
#include "kernels/core/cuda/reduce.hpp"
#include "kernels/core/cuda/vec.hpp"
#include "kernels/core/fast_math.hpp"
#include "kernels/kernel_set_cuda.hpp"

namespace shardbench::cuda {
namespace {

// One warp a token: its scores lie in shared memory, and each of the top_k rounds is one reduction over the warp.

/// scores[e] of this token for the lane's experts; every lane sees all of them afterwards.
template <class T>
__device__ void score_row(RouterRule const& rule, T const* logits, float* scores) {
  if (rule.sigmoid) {
    for (std::int64_t e = threadIdx.x; e < rule.experts; e += warp_threads)
      scores[e] = logistic(to_float(logits[e])).value;
    __syncthreads();
    return;
  }
  float highest = -INFINITY, sum = 0;
  for (std::int64_t e = threadIdx.x; e < rule.experts; e += warp_threads) highest = fmaxf(highest, to_float(logits[e]));
  highest = warp_reduce<Max>(highest);
  for (std::int64_t e = threadIdx.x; e < rule.experts; e += warp_threads) {
    scores[e] = fast_exp(to_float(logits[e]) - highest);
    sum += scores[e];
  }
  float const factor = 1.0f / warp_reduce<Sum>(sum);
  for (std::int64_t e = threadIdx.x; e < rule.experts; e += warp_threads) scores[e] *= factor;
  __syncthreads();
}

/// Position of the largest of `count` values, the lowest among equals; every lane gets it.
__device__ int largest(float const* values, std::int64_t count) {
  float best = -INFINITY;
  int at = static_cast<int>(count);
  for (std::int64_t i = threadIdx.x; i < count; i += warp_threads)
    if (values[i] > best) best = values[i], at = static_cast<int>(i);
  for (int mask = 16; mask > 0; mask >>= 1) {
    float const other = __shfl_xor_sync(0xffffffffu, best, mask);
    int const other_at = __shfl_xor_sync(0xffffffffu, at, mask);
    if (other > best || (other == best && other_at < at)) best = other, at = other_at;
  }
  return at < count ? at : static_cast<int>(count) - 1;  // where nothing compares (NaN), still a place inside
}

/// Takes values[at] out of the race, once every lane has seen it.
__device__ float take(float* values, int at) {
  float const value = values[at];
  __syncthreads();
  if (threadIdx.x == 0) values[at] = -INFINITY;
  __syncthreads();
  return value;
}

/// Leaves the members of the best groups in the race. `spare` has room for a group's members.
__device__ void keep_best_groups(RouterRule const& rule, float* choice, float* group_scores, float* spare) {
  std::int64_t const members = rule.experts / rule.groups;
  for (std::int64_t g = 0; g < rule.groups; ++g) {
    for (std::int64_t i = threadIdx.x; i < members; i += warp_threads) spare[i] = choice[g * members + i];
    __syncthreads();
    float sum = 0;
    for (std::int64_t i = 0; i < rule.group_best && i < members; ++i) sum += take(spare, largest(spare, members));
    if (threadIdx.x == 0) group_scores[g] = sum;
    __syncthreads();
  }
  for (std::int64_t i = 0; i < rule.top_groups; ++i) take(group_scores, largest(group_scores, rule.groups));
  for (std::int64_t e = threadIdx.x; e < rule.experts; e += warp_threads)
    if (group_scores[e / members] != -INFINITY) choice[e] = -INFINITY;
  __syncthreads();
}

__device__ std::int32_t prescribed_expert(RouterRule const& rule, PrescribedChoice const& p, std::int64_t token,
                                          std::int64_t i) {
  std::int64_t const wanted = (std::int64_t{p.numbers[token]} + p.rotation) % p.period + i * p.period;
  std::int64_t low = 0, high = rule.experts;  // shares[low] <= wanted < shares[high]
  while (high - low > 1) {
    std::int64_t const middle = (low + high) / 2;
    (p.shares[middle] <= wanted ? low : high) = middle;
  }
  return static_cast<std::int32_t>(low);
}

template <class T>
__global__ void forward_kernel(RouterForwardArgs a) {
  __shared__ float scores[most_experts];
  __shared__ float choice[most_experts];
  __shared__ float group_scores[most_experts];
  __shared__ float spare[most_experts];
  RouterRule const& rule = a.rule;
  std::int64_t const token = blockIdx.x;
  score_row(rule, as<T>(a.logits) + token * rule.experts, scores);
  std::int32_t* const mine = a.indices + token * rule.top_k;
  float sum = 0;
  if (a.prescribed.numbers) {
    for (std::int64_t j = 0; j < rule.top_k; ++j) {
      std::int32_t const e = prescribed_expert(rule, a.prescribed, token, j);
      if (threadIdx.x == 0) mine[j] = e;
      sum += scores[e];
    }
  } else {
    for (std::int64_t e = threadIdx.x; e < rule.experts; e += warp_threads)
      choice[e] = scores[e] + (a.bias ? a.bias[e] : 0.0f);
    __syncthreads();
    if (rule.top_groups < rule.groups) keep_best_groups(rule, choice, group_scores, spare);
    for (std::int64_t j = 0; j < rule.top_k; ++j) {
      int const e = largest(choice, rule.experts);
      take(choice, e);
      if (threadIdx.x == 0) mine[j] = e;
      sum += scores[e];
    }
  }
  float const factor = rule.scale / (rule.normalize ? sum : 1.0f);
  __syncthreads();
  if (threadIdx.x == 0)
    for (std::int64_t j = 0; j < rule.top_k; ++j) a.weights[token * rule.top_k + j] = factor * scores[mine[j]];
}

template <class T>
__global__ void backward_kernel(RouterBackwardArgs a) {
  __shared__ float scores[most_experts];
  __shared__ float dscores[most_experts];
  RouterRule const& rule = a.rule;
  std::int64_t const token = blockIdx.x;
  score_row(rule, as<T>(a.logits) + token * rule.experts, scores);
  std::int32_t const* const indices = a.indices + token * rule.top_k;
  float const* const dweights = a.dweights + token * rule.top_k;
  float sum = 0, through_sum = 0, mean = 0;
  for (std::int64_t j = 0; j < rule.top_k; ++j) {
    sum += scores[indices[j]];
    through_sum += dweights[j] * scores[indices[j]];
  }
  if (!rule.normalize) sum = 1.0f;
  for (std::int64_t e = threadIdx.x; e < rule.experts; e += warp_threads) dscores[e] = 0.0f;
  __syncthreads();
  for (std::int64_t j = 0; j < rule.top_k; ++j) {
    float const d = rule.scale * (dweights[j] / sum - (rule.normalize ? through_sum / (sum * sum) : 0.0f));
    if (threadIdx.x == 0) dscores[indices[j]] = d;
    mean += d * scores[indices[j]];
  }
  __syncthreads();
  for (std::int64_t e = threadIdx.x; e < rule.experts; e += warp_threads) {
    float const slope = rule.sigmoid ? dscores[e] * (1.0f - scores[e]) : dscores[e] - mean;
    as<T>(a.dlogits)[token * rule.experts + e] = from_float<T>(scores[e] * slope);
  }
}

std::size_t entries(std::int64_t tokens, std::int64_t each) { return tokens * each; }

void check(RouterRule const& rule) {
  VALIDATE(rule.experts <= most_experts,
           std::to_string(rule.experts) + " experts, at most " + std::to_string(most_experts) + " fit a block");
}

}  // namespace

void router_forward(Stream& stream, RouterForwardArgs const& args) {
  RouterRule const& rule = args.rule;
  check(rule);
  if (args.tokens == 0) return;
  PrescribedChoice const& p = args.prescribed;
  declare_access(stream.native(), {reads(args.logits, entries(args.tokens, rule.experts) * bytes_of(args.dtype)),
                                   reads(args.bias, entries(1, rule.experts) * sizeof(float)),
                                   reads(p.numbers, entries(args.tokens, 1) * sizeof(std::int32_t)),
                                   reads(p.shares, entries(1, rule.experts + 1) * sizeof(std::int32_t)),
                                   writes(args.weights, entries(args.tokens, rule.top_k) * sizeof(float)),
                                   writes(args.indices, entries(args.tokens, rule.top_k) * sizeof(std::int32_t))});
  with_float_type(args.dtype, [&](auto type) {
    launch(forward_kernel<decltype(type)>, dim3(grid_of_rows(args.tokens)), warp_threads, cuda_stream(stream), args);
  });
}

void router_backward(Stream& stream, RouterBackwardArgs const& args) {
  RouterRule const& rule = args.rule;
  check(rule);
  if (args.tokens == 0) return;
  std::size_t const logit_bytes = entries(args.tokens, rule.experts) * bytes_of(args.dtype);
  declare_access(
      stream.native(),
      {reads(args.logits, logit_bytes), reads(args.indices, entries(args.tokens, rule.top_k) * sizeof(std::int32_t)),
       reads(args.dweights, entries(args.tokens, rule.top_k) * sizeof(float)), writes(args.dlogits, logit_bytes)});
  with_float_type(args.dtype, [&](auto type) {
    launch(backward_kernel<decltype(type)>, dim3(grid_of_rows(args.tokens)), warp_threads, cuda_stream(stream), args);
  });
}

}  // namespace shardbench::cuda
