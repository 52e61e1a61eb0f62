#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace shardbench {

/// A closed interval; in the unit of the samples.
struct Interval {
  double low = 0, high = 0;
};

/// What is reported of repeated timings; in the unit of the samples. Median and quantiles shrug off outliers.
struct Summary {
  std::int64_t samples = 0;
  double median = 0, p95 = 0, min = 0, max = 0, mean = 0;
  double deviation = 0;                     ///< standard (n - 1), 0 for a single sample
  double cv_pct = 0;                        ///< deviation over mean
  std::optional<Interval> median_interval;  ///< 95% confidence; empty below 6 samples
};

/// Throws Error ("no valid sample") when there is none, or when one is not a finite number.
Summary summarize(std::vector<double> samples);

/// The q-th quantile, 0 <= q <= 1, linear between neighbours (Hyndman-Fan type 7). `sorted` ascending, not empty.
double quantile(std::vector<double> const& sorted, double q);

/// 95% confidence interval of the median by order statistics: ranks k and n+1-k with the largest k such that a binomial
/// (n, 1/2) falls below k with probability <= 2.5%. No assumption on the distribution. Empty below 6 samples, where
/// even the extremes do not reach 95%.
std::optional<Interval> median_interval(std::vector<double> const& sorted);

/// When to stop repeating: the interval of the median is narrow enough, or a cap is reached.
struct SampleStop {
  double target_ci_pct = 3;       ///< half width of the interval over the median, percent
  std::int64_t max_samples = 30;  ///< cap on the count
  double max_total = 10e3;        ///< cap on the sum of the samples, in their unit
  std::int64_t min_samples = 6;   ///< never fewer, unless a cap says so
  /// Depends on the samples alone, so ranks that share them decide alike.
  bool enough(std::vector<double> const& samples) const;
};

/// A mean of repeats and their standard deviation; in the unit of the samples.
struct Spread {
  double mean = 0, deviation = 0;
};

/// Two settings differ only if their means are further apart than twice the root of their summed variances:
/// |m1 - m2| > 2 sqrt(s1^2 + s2^2).
bool means_differ(Spread const& a, Spread const& b);

}  // namespace shardbench
