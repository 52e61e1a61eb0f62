#include <algorithm>

#include "kernels/activation/activation_math.hpp"
#include "kernels/core/row_host.hpp"
#include "kernels/core/storage.hpp"
#include "kernels/kernel_set_host.hpp"

namespace shardbench::host {
namespace {

constexpr float never = -std::numeric_limits<float>::infinity();

template <class T>
void score_row(RouterRule const& rule, T const* logits, float* scores) {
  load_row(logits, scores, rule.experts);
  if (rule.sigmoid) {
#pragma omp simd
    for (std::int64_t e = 0; e < rule.experts; ++e) scores[e] = logistic(scores[e]).value;
    return;
  }
  float const highest = max_row(rule.experts, [&](std::int64_t e) { return scores[e]; });
#pragma omp simd
  for (std::int64_t e = 0; e < rule.experts; ++e) scores[e] = fast_exp(scores[e] - highest);
  float const factor = 1.0f / sum_row(rule.experts, [&](std::int64_t e) { return scores[e]; });
#pragma omp simd
  for (std::int64_t e = 0; e < rule.experts; ++e) scores[e] *= factor;
}

/// Takes the largest of `count` values out of the race and returns its position, the lowest among equals.
std::int64_t take_largest(float* values, std::int64_t count) {
  std::int64_t const at = std::max_element(values, values + count) - values;
  values[at] = never;
  return at;
}

/// Leaves the members of the best groups in the race.
void keep_best_groups(RouterRule const& rule, float* choice, float* scratch) {
  std::int64_t const members = rule.experts / rule.groups;
  float* const group_scores = scratch;
  float* const group = scratch + rule.groups;
  for (std::int64_t g = 0; g < rule.groups; ++g) {
    std::copy_n(choice + g * members, members, group);
    float sum = 0;
    for (std::int64_t i = 0; i < std::min(rule.group_best, members); ++i) {
      sum += *std::max_element(group, group + members);
      take_largest(group, members);
    }
    group_scores[g] = sum;
  }
  for (std::int64_t i = 0; i < rule.top_groups; ++i) take_largest(group_scores, rule.groups);
  for (std::int64_t g = 0; g < rule.groups; ++g)
    if (group_scores[g] != never) std::fill_n(choice + g * members, members, never);
}

void choose_as_prescribed(RouterRule const& rule, PrescribedChoice const& p, std::int64_t token,
                          std::int32_t* indices) {
  std::int64_t const m = (std::int64_t{p.numbers[token]} + p.rotation) % p.period;
  std::int32_t const *const first = p.shares + 1, *const last = first + rule.experts;
  for (std::int64_t i = 0; i < rule.top_k; ++i)
    indices[i] = static_cast<std::int32_t>(std::upper_bound(first, last, m + i * p.period) - first);
}

float chosen_sum(RouterRule const& rule, float const* scores, std::int32_t const* indices) {
  float sum = 0;
  for (std::int64_t j = 0; j < rule.top_k; ++j) sum += scores[indices[j]];
  return rule.normalize ? sum : 1.0f;
}

}  // namespace

void router_forward(RouterForwardArgs const& args) {
  RouterRule const& rule = args.rule;
  thread_local Workspace workspace;
  float* const scores = workspace.floats(3 * rule.experts + rule.groups);
  float* const choice = scores + rule.experts;
  with_storage(args.dtype, "router", [&]<class T>(T) {
    for (std::int64_t t = 0; t < args.tokens; ++t) {
      score_row(rule, static_cast<T const*>(args.logits) + t * rule.experts, scores);
      std::int32_t* const indices = args.indices + t * rule.top_k;
      if (args.prescribed.numbers) {
        choose_as_prescribed(rule, args.prescribed, t, indices);
      } else {
        for (std::int64_t e = 0; e < rule.experts; ++e) choice[e] = scores[e] + (args.bias ? args.bias[e] : 0.0f);
        if (rule.top_groups < rule.groups) keep_best_groups(rule, choice, choice + rule.experts);
        for (std::int64_t j = 0; j < rule.top_k; ++j)
          indices[j] = static_cast<std::int32_t>(take_largest(choice, rule.experts));
      }
      float const factor = rule.scale / chosen_sum(rule, scores, indices);
      for (std::int64_t j = 0; j < rule.top_k; ++j) args.weights[t * rule.top_k + j] = factor * scores[indices[j]];
    }
  });
}

void router_backward(RouterBackwardArgs const& args) {
  RouterRule const& rule = args.rule;
  thread_local Workspace workspace;
  float* const scores = workspace.floats(2 * rule.experts);
  float* const dscores = scores + rule.experts;
  with_storage(args.dtype, "router", [&]<class T>(T) {
    for (std::int64_t t = 0; t < args.tokens; ++t) {
      score_row(rule, static_cast<T const*>(args.logits) + t * rule.experts, scores);
      std::int32_t const* const indices = args.indices + t * rule.top_k;
      float const* const dweights = args.dweights + t * rule.top_k;
      float const sum = chosen_sum(rule, scores, indices);
      float through_sum = 0, mean = 0;
      for (std::int64_t j = 0; j < rule.top_k; ++j) through_sum += dweights[j] * scores[indices[j]];
      std::fill_n(dscores, rule.experts, 0.0f);
      for (std::int64_t j = 0; j < rule.top_k; ++j) {
        float const d = rule.scale * (dweights[j] / sum - (rule.normalize ? through_sum / (sum * sum) : 0.0f));
        dscores[indices[j]] = d;
        mean += d * scores[indices[j]];
      }
      T* const dlogits = static_cast<T*>(args.dlogits) + t * rule.experts;
      for (std::int64_t e = 0; e < rule.experts; ++e) {
        float const slope = rule.sigmoid ? dscores[e] * (1.0f - scores[e]) : dscores[e] - mean;
        dlogits[e] = from_float<T>(scores[e] * slope);
      }
    }
  });
}

}  // namespace shardbench::host
