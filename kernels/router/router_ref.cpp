#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/core/element.hpp"
#include "kernels/kernel_set_ref.hpp"

namespace shardbench::reference {
namespace {

using Scores = std::vector<double>;

Scores scores_of(RouterRule const& rule, void const* logits, Dtype dtype, std::int64_t token) {
  Scores s;
  for (std::int64_t e = 0; e < rule.experts; ++e) s.push_back(read_element(logits, dtype, token * rule.experts + e));
  if (rule.sigmoid) {
    for (double& x : s) x = 1 / (1 + std::exp(-x));
    return s;
  }
  double const highest = *std::ranges::max_element(s);
  for (double& x : s) x = std::exp(x - highest);
  double const sum = std::accumulate(s.begin(), s.end(), 0.0);
  for (double& x : s) x /= sum;
  return s;
}

/// Positions of the `count` largest values, the lowest position first among equals.
std::vector<std::int64_t> largest(Scores const& values, std::int64_t count) {
  std::vector<std::int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) { return values[a] > values[b]; });
  order.resize(count);
  return order;
}

std::vector<std::int64_t> choose_by_score(RouterRule const& rule, Scores choice) {
  std::int64_t const members = rule.experts / rule.groups;
  Scores group_scores;
  for (std::int64_t g = 0; g < rule.groups; ++g) {
    Scores group(choice.begin() + g * members, choice.begin() + (g + 1) * members);
    std::ranges::sort(group, std::greater<>{});
    group_scores.push_back(std::accumulate(group.begin(), group.begin() + std::min(rule.group_best, members), 0.0));
  }
  auto const allowed = largest(group_scores, rule.top_groups);
  for (std::int64_t e = 0; e < rule.experts; ++e)
    if (std::ranges::find(allowed, e / members) == allowed.end()) choice[e] = -INFINITY;
  return largest(choice, rule.top_k);
}

std::vector<std::int64_t> choose_as_prescribed(RouterRule const& rule, PrescribedChoice const& p, std::int64_t token) {
  std::vector<std::int64_t> chosen;
  std::int64_t const m = (std::int64_t{p.numbers[token]} + p.rotation) % p.period;
  for (std::int64_t e = 0; e < rule.experts; ++e)
    for (std::int64_t i = 0; i < rule.top_k; ++i)
      if (p.shares[e] <= m + i * p.period && m + i * p.period < p.shares[e + 1]) chosen.push_back(e);
  return chosen;
}

double chosen_sum(RouterRule const& rule, Scores const& scores, std::int32_t const* indices) {
  double sum = 0;
  for (std::int64_t j = 0; j < rule.top_k; ++j) sum += scores[indices[j]];
  return rule.normalize ? sum : 1;
}

}  // namespace

void router_forward(RouterForwardArgs const& args) {
  RouterRule const& rule = args.rule;
  for (std::int64_t t = 0; t < args.tokens; ++t) {
    Scores const scores = scores_of(rule, args.logits, args.dtype, t);
    Scores choice = scores;
    for (std::int64_t e = 0; args.bias && e < rule.experts; ++e) choice[e] += static_cast<double>(args.bias[e]);
    auto const chosen =
        args.prescribed.numbers ? choose_as_prescribed(rule, args.prescribed, t) : choose_by_score(rule, choice);
    std::int32_t* const indices = args.indices + t * rule.top_k;
    for (std::int64_t j = 0; j < rule.top_k; ++j) indices[j] = static_cast<std::int32_t>(chosen[j]);
    double const factor = static_cast<double>(rule.scale) / chosen_sum(rule, scores, indices);
    for (std::int64_t j = 0; j < rule.top_k; ++j)
      args.weights[t * rule.top_k + j] = static_cast<float>(factor * scores[indices[j]]);
  }
}

void router_backward(RouterBackwardArgs const& args) {
  RouterRule const& rule = args.rule;
  for (std::int64_t t = 0; t < args.tokens; ++t) {
    Scores const scores = scores_of(rule, args.logits, args.dtype, t);
    std::int32_t const* const indices = args.indices + t * rule.top_k;
    float const* const dweights = args.dweights + t * rule.top_k;
    // w_j = scale * s_j / sum, with sum = 1 unless weights are normalised.
    double const sum = chosen_sum(rule, scores, indices), scale = static_cast<double>(rule.scale);
    double through_sum = 0;
    for (std::int64_t j = 0; j < rule.top_k; ++j) through_sum += static_cast<double>(dweights[j]) * scores[indices[j]];
    Scores dscores(rule.experts, 0.0);
    for (std::int64_t j = 0; j < rule.top_k; ++j)
      dscores[indices[j]] =
          scale * (static_cast<double>(dweights[j]) / sum - (rule.normalize ? through_sum / (sum * sum) : 0));
    double mean = 0;
    for (std::size_t e = 0; e < scores.size(); ++e) mean += dscores[e] * scores[e];
    for (std::size_t e = 0; e < scores.size(); ++e) {
      double const slope = rule.sigmoid ? dscores[e] * (1 - scores[e]) : dscores[e] - mean;
      write_element(args.dlogits, args.dtype, t * rule.experts + static_cast<std::int64_t>(e), scores[e] * slope);
    }
  }
}

}  // namespace shardbench::reference
