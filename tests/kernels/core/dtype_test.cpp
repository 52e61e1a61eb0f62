#include <cmath>
#include <limits>

#include "tests/kernels/compare.hpp"

namespace shardbench::test {
namespace {

TEST(Bf16, WideningIsExactAndNarrowingReturns) {
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    Bf16 const x{static_cast<std::uint16_t>(bits)};
    float const wide = to_float(x);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(to_float(to_bf16(wide))));
    } else {
      EXPECT_EQ(to_bf16(wide).bits, x.bits);
    }
  }
}

TEST(Bf16, RoundsToTheNearestAndTiesToEven) {
  EXPECT_EQ(to_float(to_bf16(1.0f + 0x1p-8f)), 1.0f);                // half way: 1 is even
  EXPECT_EQ(to_float(to_bf16(1.0f + 3 * 0x1p-8f)), 1.0f + 0x1p-6f);  // half way: up to the even one
  EXPECT_EQ(to_float(to_bf16(1.0f + 0x1p-8f + 0x1p-20f)), 1.0f + 0x1p-7f);
  EXPECT_EQ(to_float(to_bf16(-1.0f - 0x1p-8f)), -1.0f);
}

TEST(Bf16, KeepsInfinityAndNan) {
  float const infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(to_float(to_bf16(infinity)), infinity);
  EXPECT_EQ(to_float(to_bf16(std::numeric_limits<float>::max())), infinity);
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(0x7f800001u)))));  // its payload lies in the low bits
}

TEST(Bf16, ErrorIsAtMostTheUnitRoundoff) {
  for (std::uint64_t i = 0; i < 10000; ++i) {
    float const x = random_normal(1, i);
    double const error = std::abs(static_cast<double>(to_float(to_bf16(x))) - static_cast<double>(x));
    EXPECT_LE(error, unit_roundoff(Dtype::bf16) * std::abs(static_cast<double>(x)));
  }
}

TEST(CounterRng, UniformHasTheRightMoments) {
  constexpr int n = 200000;
  double sum = 0, square = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    double const u = static_cast<double>(random_uniform(7, i));
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    square += (u - 0.5) * (u - 0.5);
  }
  EXPECT_NEAR(sum / n, 0.5, 5 * std::sqrt(1.0 / 12 / n));
  EXPECT_NEAR(square / n, 1.0 / 12, 1e-3);
}

TEST(CounterRng, NormalHasTheRightMoments) {
  constexpr int n = 200000;
  double sum = 0, square = 0, neighbours = 0, before = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    double const x = static_cast<double>(random_normal(8, i));
    sum += x;
    square += x * x;
    neighbours += x * before;
    before = x;
  }
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(square / n, 1, 0.02);
  EXPECT_NEAR(neighbours / n, 0, 5 / std::sqrt(n));
}

TEST(CounterRng, KeysAndCountersAreIndependent) {
  double keys = 0;
  constexpr int n = 20000;
  for (std::uint64_t i = 0; i < n; ++i) {
    keys += static_cast<double>(random_normal(1, i)) * static_cast<double>(random_normal(2, i));
    EXPECT_NE(random_bits(1, i), random_bits(1, i + 1));
  }
  EXPECT_NEAR(keys / n, 0, 5 / std::sqrt(n));
}

TEST(CounterRng, AShardIsASliceOfTheWhole) {
  constexpr std::uint64_t rows = 6, cols = 10, first_column = 4;
  Tensor const whole = Tensor::random(Dtype::f32, rows * cols, 3);
  for (std::uint64_t r = 0; r < rows; ++r) {
    for (std::uint64_t c = 0; c < cols - first_column; ++c) {
      double const mine = static_cast<double>(random_normal(3, r * cols + first_column + c));
      EXPECT_EQ(mine, whole.at(static_cast<std::int64_t>(r * cols + first_column + c)));
    }
  }
}

}  // namespace
}  // namespace shardbench::test
