#include "kernels/core/fp8.hpp"

#include <gtest/gtest.h>

namespace shardbench::test {
namespace {

TEST(Fp8, KnownValuesOfBothFormats) {
  EXPECT_EQ(fp8_to_float(0x38, Dtype::fp8), 1.0f);
  EXPECT_EQ(fp8_to_float(0x7e, Dtype::fp8), 448.0f);
  EXPECT_EQ(fp8_to_float(0x01, Dtype::fp8), 0x1p-9f);
  EXPECT_TRUE(std::isnan(fp8_to_float(0xff, Dtype::fp8)));
  EXPECT_EQ(fp8_to_float(0x3c, Dtype::fp8_e5m2), 1.0f);
  EXPECT_EQ(fp8_to_float(0x7b, Dtype::fp8_e5m2), 57344.0f);
  EXPECT_EQ(fp8_to_float(0x81, Dtype::fp8_e5m2), -0x1p-16f);
  EXPECT_TRUE(std::isinf(fp8_to_float(0x7c, Dtype::fp8_e5m2)));
}

TEST(Fp8, EveryNumberComesBack) {
  for (Dtype const dtype : {Dtype::fp8, Dtype::fp8_e5m2})
    for (int bits = 0; bits < 256; ++bits) {
      float const value = fp8_to_float(static_cast<std::uint8_t>(bits), dtype);
      if (!std::isfinite(value)) continue;
      EXPECT_EQ(to_fp8(value, dtype), bits) << to_string(dtype);
    }
}

// Rounding against a search for the nearest of all numbers, ties to the even bits.
TEST(Fp8, RoundsToTheNearest) {
  for (Dtype const dtype : {Dtype::fp8, Dtype::fp8_e5m2})
    for (float value = 0x1p-18f; value < 60000.0f; value *= 1.0173f) {
      int best = 0;
      for (int bits = 0; bits < 0x7f; ++bits) {
        float const candidate = fp8_to_float(static_cast<std::uint8_t>(bits), dtype);
        if (!std::isfinite(candidate)) continue;
        float const distance = std::abs(candidate - value),
                    least = std::abs(fp8_to_float(static_cast<std::uint8_t>(best), dtype) - value);
        if (distance < least || (distance == least && bits % 2 == 0)) best = bits;
      }
      EXPECT_EQ(to_fp8(value, dtype), best) << value << ' ' << to_string(dtype);
      EXPECT_EQ(to_fp8(-value, dtype), best | 0x80) << value;
    }
}

}  // namespace
}  // namespace shardbench::test
