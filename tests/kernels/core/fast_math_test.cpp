#include "kernels/core/fast_math.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace shardbench {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
float const nan = std::numeric_limits<float>::quiet_NaN();

/// Largest relative error of `fast` against `exact` on a grid of [low, high].
template <class Fast, class Exact>
double worst_error(Fast fast, Exact exact, double low, double high) {
  constexpr int points = 100001;
  double worst = 0;
  for (int i = 0; i < points; ++i) {
    auto const x = static_cast<float>(low + (high - low) * i / (points - 1));
    double const expected = exact(static_cast<double>(x));
    if (expected == 0) continue;
    worst = std::max(worst, std::abs(static_cast<double>(fast(x)) - expected) / std::abs(expected));
  }
  return worst;
}

TEST(FastMath, Exponential) {
  auto const exact = [](double x) { return std::exp(x); };
  EXPECT_LT(worst_error(fast_exp, exact, -87.29, 88.29), 3e-7);
  EXPECT_LT(worst_error(fast_exp, exact, -1, 1), 3e-7);
  EXPECT_EQ(fast_exp(0), 1);
  EXPECT_EQ(fast_exp(-infinity), 0);
  EXPECT_EQ(fast_exp(-1000), 0);
  EXPECT_EQ(fast_exp(infinity), infinity);
  EXPECT_EQ(fast_exp(1000), infinity);
  EXPECT_TRUE(std::isnan(fast_exp(nan)));
}

TEST(FastMath, HyperbolicTangent) {
  auto const exact = [](double x) { return std::tanh(x); };
  EXPECT_LT(worst_error(fast_tanh, exact, -12, 12), 4e-7);
  EXPECT_LT(worst_error(fast_tanh, exact, -1e-3, 1e-3), 4e-7);
  EXPECT_EQ(fast_tanh(infinity), 1);
  EXPECT_EQ(fast_tanh(-infinity), -1);
  EXPECT_TRUE(std::isnan(fast_tanh(nan)));
}

TEST(FastMath, ErrorFunction) {
  auto const exact = [](double x) { return std::erf(x); };
  EXPECT_LT(worst_error(fast_erf, exact, -12, 12), 4e-7);
  EXPECT_LT(worst_error(fast_erf, exact, -1e-3, 1e-3), 4e-7);
  EXPECT_EQ(fast_erf(50), 1);
  EXPECT_EQ(fast_erf(-50), -1);
  EXPECT_TRUE(std::isnan(fast_erf(nan)));
}

TEST(FastMath, SineAndCosine) {
  for (double const span : {1.0, 100.0, 1e6}) {
    for (int i = -5000; i <= 5000; ++i) {
      double const angle = span * i / 5000;
      SineCosine const result = fast_sincos(angle);
      ASSERT_NEAR(static_cast<double>(result.sine), std::sin(angle), 3e-7) << angle;
      ASSERT_NEAR(static_cast<double>(result.cosine), std::cos(angle), 3e-7) << angle;
    }
  }
}

}  // namespace
}  // namespace shardbench
