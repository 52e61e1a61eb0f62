#include "tests/kernels/compare.hpp"

namespace shardbench::test {
namespace {

struct Case {
  std::int64_t seq, batch, heads, head_dim, rotary_dim, gap;
  std::int32_t first_position;  ///< negative: no position array
};

constexpr Case cases[] = {{1, 1, 1, 2, 2, 0, -1},
                          {7, 2, 3, 8, 8, 0, -1},
                          {5, 1, 2, 20, 12, 6, 100},
                          {33, 1, 1, 64, 64, 0, -1},
                          {4, 2, 2, 128, 128, 0, 131000}};

RopeArgs args_for(Case const& c, Dtype dtype, Tensor& x, std::vector<std::int32_t>& positions) {
  RopeArgs args;
  args.x = x.data();
  args.seq = c.seq;
  args.batch = c.batch;
  args.heads = c.heads;
  args.head_dim = c.head_dim;
  args.rotary_dim = c.rotary_dim;
  args.row_stride = c.heads * c.head_dim + c.gap;
  args.rule.theta = 500000.0f;
  args.dtype = dtype;
  for (std::int64_t s = 0; s < c.seq && c.first_position >= 0; ++s) {
    positions.push_back(c.first_position + static_cast<std::int32_t>(s) * 3);
  }
  args.positions = positions.empty() ? nullptr : positions.data();
  return args;
}

Tensor input(Case const& c, Dtype dtype) {
  return Tensor::random(dtype, c.seq * c.batch * (c.heads * c.head_dim + c.gap), 11);
}

TEST(Rope, HostEqualsReference) {
  for (Case const& c : cases) {
    for (Dtype const dtype : storage_dtypes) {
      for (bool const inverse : {false, true}) {
        Tensor actual = input(c, dtype), expected = actual;
        std::vector<std::int32_t> positions;
        RopeArgs args = args_for(c, dtype, actual, positions);
        args.inverse = inverse;
        run(host_kernels().rope, args);
        args.x = expected.data();
        run(reference_kernels().rope, args);
        EXPECT_TRUE(close(actual, expected, tolerance(dtype)));
      }
    }
  }
}

// Slowed by parts: linear (all pairs), YaRN's ramp over pairs with an amplitude, Llama 3.1's ramp over frequencies.
TEST(Rope, ScaledRulesEqualReference) {
  RopeRule const rules[] = {{.theta = 1e6f, .factor = 8},
                            {.theta = 1e4f, .factor = 40, .begin = 2, .end = 9.5, .amplitude = 1.25f},
                            {.theta = 5e5f, .ramp = RopeRamp::frequency, .factor = 8, .begin = 3e-3, .end = 7.7e-4}};
  for (RopeRule const& rule : rules) {
    for (bool const inverse : {false, true}) {
      Case const& c = cases[4];
      Tensor actual = input(c, Dtype::f32), expected = actual;
      Tensor const before = actual;
      std::vector<std::int32_t> positions;
      RopeArgs args = args_for(c, Dtype::f32, actual, positions);
      args.inverse = inverse, args.rule = rule;
      run(host_kernels().rope, args);
      args.x = expected.data();
      run(reference_kernels().rope, args);
      EXPECT_TRUE(close(actual, expected, tolerance(Dtype::f32)));
      args.x = actual.data(), args.inverse = !inverse;
      run(host_kernels().rope, args);
      // There and back is the square of the amplitude.
      double const square = static_cast<double>(rule.amplitude) * static_cast<double>(rule.amplitude);
      for (std::int64_t i = 0; i < 16; ++i) EXPECT_NEAR(actual.at(i), before.at(i) * square, 1e-5);
    }
  }
}

TEST(Rope, InverseUndoesIt) {
  Case const c = cases[2];
  Tensor const before = input(c, Dtype::f32);
  Tensor x = before;
  std::vector<std::int32_t> positions;
  RopeArgs args = args_for(c, Dtype::f32, x, positions);
  run(host_kernels().rope, args);
  EXPECT_FALSE(close(x, before, 0.1));
  args.inverse = true;
  run(host_kernels().rope, args);
  EXPECT_TRUE(close(x, before, 1e-6));
}

TEST(Rope, ProductsDependOnDistanceOnly) {
  Case const c{2, 1, 1, 16, 16, 0, -1};
  auto const product_at = [&](std::int32_t first) {
    Tensor x = Tensor::random(Dtype::f32, 32, 5);
    std::vector<std::int32_t> const positions{first, first + 7};
    std::vector<std::int32_t> none;
    RopeArgs args = args_for(c, Dtype::f32, x, none);
    args.positions = positions.data();
    run(host_kernels().rope, args);
    double product = 0;
    for (std::int64_t d = 0; d < 16; ++d) product += x.at(d) * x.at(16 + d);
    return product;
  };
  EXPECT_NEAR(product_at(0), product_at(1000), 1e-4);
}

}  // namespace
}  // namespace shardbench::test
