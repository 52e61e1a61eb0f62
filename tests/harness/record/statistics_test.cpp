#include "harness/record/statistics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

std::vector<double> counting(int n) {
  std::vector<double> samples(static_cast<std::size_t>(n));
  std::iota(samples.begin(), samples.end(), 1.0);
  return samples;
}

TEST(Statistics, SummaryOfKnownSamples) {
  auto const s = summarize({3, 1, 2, 4});
  EXPECT_EQ(s.samples, 4);
  EXPECT_DOUBLE_EQ(s.median, 2.5);
  EXPECT_DOUBLE_EQ(s.min, 1);
  EXPECT_DOUBLE_EQ(s.max, 4);
  EXPECT_DOUBLE_EQ(s.p95, 3.85);
  EXPECT_NEAR(s.cv_pct, 100 * 1.2909944487358056 / 2.5, 1e-9);
  EXPECT_FALSE(s.median_interval.has_value());
  EXPECT_DOUBLE_EQ(summarize({5}).cv_pct, 0);
}

TEST(Statistics, NoSampleIsAnErrorNeverZeroOrNan) {
  EXPECT_THROW(summarize({}), Error);
  EXPECT_THROW(summarize({1, std::numeric_limits<double>::quiet_NaN()}), Error);
  EXPECT_THROW(summarize({1, std::numeric_limits<double>::infinity()}), Error);
  EXPECT_THROW(quantile({}, 0.5), Error);
}

// Ranks as printed in tables of the sign-test interval of the median (95%).
TEST(Statistics, MedianIntervalUsesTheTabulatedRanks) {
  struct Case {
    int n, low;
  };
  EXPECT_FALSE(median_interval(counting(5)).has_value());
  for (auto const [n, low] : {Case{6, 1}, Case{8, 1}, Case{9, 2}, Case{11, 2}, Case{12, 3}, Case{15, 4}, Case{20, 6},
                              Case{25, 8}, Case{30, 10}, Case{50, 18}, Case{100, 40}}) {
    auto const interval = median_interval(counting(n));
    ASSERT_TRUE(interval.has_value()) << n;
    EXPECT_DOUBLE_EQ(interval->low, low) << n;
    EXPECT_DOUBLE_EQ(interval->high, n + 1 - low) << n;
  }
  auto const large = median_interval(counting(100000));
  ASSERT_TRUE(large.has_value());
  EXPECT_NEAR(large->low, 50000 - 1.96 * std::sqrt(100000) / 2, 3) << "the normal limit";
}

TEST(Statistics, MedianIntervalCoversTheMedianAsOftenAsItSays) {
  std::mt19937 random(3);
  std::lognormal_distribution<double> skewed(0, 1);  // median exactly 1
  int covered = 0;
  constexpr int rounds = 2000;
  for (int round = 0; round < rounds; ++round) {
    std::vector<double> samples(15);
    for (double& x : samples) x = skewed(random);
    std::sort(samples.begin(), samples.end());
    auto const interval = median_interval(samples);
    covered += interval->low <= 1 && 1 <= interval->high;
  }
  EXPECT_GT(covered, 0.95 * rounds);
}

TEST(SampleStop, StopsWhenNarrowOrAtACap) {
  SampleStop const stop{.target_ci_pct = 3, .max_samples = 30, .max_total = 10000, .min_samples = 6};
  EXPECT_FALSE(stop.enough({}));
  EXPECT_FALSE(stop.enough(std::vector<double>(5, 10.0))) << "too few to know";
  EXPECT_TRUE(stop.enough(std::vector<double>(6, 10.0)));
  std::vector<double> noisy;
  for (int i = 0; i < 29; ++i) noisy.push_back(i % 2 ? 10 : 20);
  EXPECT_FALSE(stop.enough(noisy));
  noisy.push_back(10);
  EXPECT_TRUE(stop.enough(noisy)) << "cap on the count";
  EXPECT_TRUE(stop.enough({10001})) << "cap on the time";
}

TEST(SampleStop, OutliersDoNotPreventIt) {
  std::vector<double> samples(20, 10.0);
  samples[3] = 295.4;
  samples[4] = 971.7;
  EXPECT_TRUE(SampleStop{}.enough(samples));
  EXPECT_DOUBLE_EQ(summarize(samples).median, 10);
}

// Case T04: 1.57952 +- 0.00299; they differ from 0.54% on.
TEST(Statistics, SmallGainsAreNoise) {
  Summary const s = summarize({1.57614, 1.58183, 1.58058});
  EXPECT_NEAR(s.mean, 1.57952, 5e-6);
  EXPECT_NEAR(s.deviation, 0.00299, 5e-6);
  Spread const repeats{s.mean, s.deviation};
  EXPECT_FALSE(means_differ(repeats, {s.mean + 0.0084, s.deviation}));
  EXPECT_TRUE(means_differ(repeats, {s.mean + 0.0085, s.deviation}));
  EXPECT_TRUE(means_differ(repeats, {s.mean - 0.0085, s.deviation}));
  EXPECT_FALSE(means_differ({10, 3}, {19.9, 4}));  // 2 * 5
  EXPECT_TRUE(means_differ({10, 3}, {20.1, 4}));
}

}  // namespace
}  // namespace shardbench
