#include "harness/record/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

double mean_of(std::vector<double> const& samples) {
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

double variance_of(std::vector<double> const& samples, double mean) {
  if (samples.size() < 2) return 0;
  double sum = 0;
  for (double x : samples) sum += (x - mean) * (x - mean);
  return sum / static_cast<double>(samples.size() - 1);
}

}  // namespace

double quantile(std::vector<double> const& sorted, double q) {
  VALIDATE(!sorted.empty() && q >= 0 && q <= 1, "a quantile needs samples and 0 <= q <= 1");
  double const position = q * static_cast<double>(sorted.size() - 1);
  auto const below = static_cast<std::size_t>(position);
  std::size_t const above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], position - static_cast<double>(below));
}

std::optional<Interval> median_interval(std::vector<double> const& sorted) {
  auto const n = static_cast<double>(sorted.size());
  // P(X < k) of a binomial (n, 1/2), one term at a time in logarithms: 2^-n underflows for large n.
  double below = 0, log_term = -n * std::log(2.0);
  std::size_t k = 0;
  while (k < sorted.size() / 2) {
    below += std::exp(log_term);
    if (below > 0.025) break;
    ++k;
    log_term += std::log((n - static_cast<double>(k) + 1) / static_cast<double>(k));
  }
  if (k == 0) return std::nullopt;
  return Interval{sorted[k - 1], sorted[sorted.size() - k]};
}

Summary summarize(std::vector<double> samples) {
  VALIDATE(!samples.empty(), "no valid sample");
  VALIDATE(std::all_of(samples.begin(), samples.end(), [](double x) { return std::isfinite(x); }),
           "a sample is not a finite number");
  std::sort(samples.begin(), samples.end());
  Summary result;
  result.samples = static_cast<std::int64_t>(samples.size());
  result.median = quantile(samples, 0.5);
  result.p95 = quantile(samples, 0.95);
  result.min = samples.front();
  result.max = samples.back();
  result.mean = mean_of(samples);
  result.deviation = std::sqrt(variance_of(samples, result.mean));
  result.cv_pct = result.mean > 0 ? 100 * result.deviation / result.mean : 0;
  result.median_interval = median_interval(samples);
  return result;
}

bool SampleStop::enough(std::vector<double> const& samples) const {
  auto const n = static_cast<std::int64_t>(samples.size());
  if (n >= max_samples || (n > 0 && std::accumulate(samples.begin(), samples.end(), 0.0) >= max_total)) return true;
  if (n < min_samples) return false;
  std::vector<double> sorted = samples;
  std::sort(sorted.begin(), sorted.end());
  auto const interval = median_interval(sorted);
  if (!interval) return false;
  return 100 * (interval->high - interval->low) / 2 <= target_ci_pct * quantile(sorted, 0.5);
}

bool means_differ(Spread const& a, Spread const& b) {
  return std::abs(a.mean - b.mean) > 2 * std::hypot(a.deviation, b.deviation);
}

}  // namespace shardbench
