#include "harness/program/graph/routing_load.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace shardbench {

namespace {

/// The number nearest to the golden section of n that is coprime to it: its multiples fill [0, n) evenly.
std::int64_t golden_stride(std::int64_t n) {
  auto stride = std::max<std::int64_t>(1, std::llround(0.6180339887 * static_cast<double>(n)));
  while (std::gcd(stride, n) != 1) ++stride;
  return stride;
}

/// Ratio r of a geometric load with experts * (1 - r) / (1 - r^experts) = skew.
double geometric_ratio(double experts, double skew) {
  double low = 0, high = 1;
  for (int i = 0; i < 200; ++i) {
    double const r = (low + high) / 2;
    (experts * (1 - r) / (1 - std::pow(r, experts)) > skew ? low : high) = r;
  }
  return low;
}

}  // namespace

RoutingLoad routing_load(MoeConfig const& moe, double skew) {
  RoutingLoad load;
  std::int64_t const experts = moe.experts;
  load.shares.assign(1, 0);
  if (skew <= 1) {
    load.period = experts;
    for (std::int64_t e = 1; e <= experts; ++e) load.shares.push_back(static_cast<std::int32_t>(e * moe.top_k));
  } else {
    load.period = std::max<std::int64_t>(4096, 16 * experts);
    double const n = static_cast<double>(experts), ratio = geometric_ratio(n, skew);
    double const rows = static_cast<double>(moe.top_k * load.period);
    double const first = skew / n;
    std::int64_t const mix = golden_stride(experts);
    double sum = 0;
    for (std::int64_t e = 0; e < experts; ++e) {
      sum += first * std::pow(ratio, static_cast<double>(e * mix % experts));
      load.shares.push_back(static_cast<std::int32_t>(std::llround(rows * std::min(sum, 1.0))));
    }
    load.shares.back() = static_cast<std::int32_t>(moe.top_k * load.period);
  }
  load.stride = golden_stride(load.period);
  return load;
}

double RoutingLoad::rows(double tokens, std::int64_t first, std::int64_t count) const {
  auto const at = [&](std::int64_t e) { return static_cast<double>(shares[e]); };
  return tokens * (at(first + count) - at(first)) / static_cast<double>(period);
}

std::int64_t RoutingLoad::most_rows(std::int64_t tokens, std::int64_t first, std::int64_t count) const {
  auto const at = [&](std::int64_t e) { return std::int64_t{shares[e]}; };
  return (tokens + period - 1) / period * (at(first + count) - at(first));
}

}  // namespace shardbench
