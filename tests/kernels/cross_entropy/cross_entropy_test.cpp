#include "tests/kernels/compare.hpp"

namespace shardbench::test {
namespace {

/// What the four kernels give.
struct Result {
  Tensor maximum, sums, loss, dlogits;
};

CrossEntropyShape shape_of(Tensor const& logits, std::vector<std::int32_t> const& targets, std::int64_t columns,
                           std::int64_t first_column, std::int64_t valid_vocab, float softcap = 0) {
  CrossEntropyShape shape;
  shape.softcap = softcap;
  shape.logits = logits.data();
  shape.targets = targets.data();
  shape.tokens = static_cast<std::int64_t>(targets.size());
  shape.columns = columns;
  shape.first_column = first_column;
  shape.valid_vocab = valid_vocab;
  shape.dtype = logits.dtype();
  return shape;
}

/// The four kernels in order on one shard that is the whole vocabulary.
Result compute(KernelSet const& kernels, CrossEntropyShape const& shape, float scale) {
  Result r{Tensor(Dtype::f32, shape.tokens), Tensor(Dtype::f32, 2 * shape.tokens), Tensor(Dtype::f32, 1),
           Tensor(shape.dtype, shape.tokens * shape.columns)};
  run(kernels.cross_entropy_max, CrossEntropyMaxArgs{shape, r.maximum.floats()});
  run(kernels.cross_entropy_sum, CrossEntropySumArgs{shape, r.maximum.floats(), r.sums.floats()});
  run(kernels.cross_entropy_loss, CrossEntropyLossArgs{shape, r.sums.floats(), r.loss.floats(), scale, false});
  run(kernels.cross_entropy_backward,
      CrossEntropyBackwardArgs{shape, r.maximum.floats(), r.sums.floats(), r.dlogits.data(), scale});
  return r;
}

// Case N01: sums over all tokens of all microbatches, divided once; the mean of the microbatches' means would be 2.75.
TEST(CrossEntropy, N01AccumulatedLossWeighsTokensAlike) {
  auto const sums_of = [](std::int64_t tokens, double total) {
    Tensor sums(Dtype::f32, 2 * tokens);
    for (std::int64_t t = 0; t < tokens; ++t)
      sums.set(t, std::exp(1.0)), sums.set(tokens + t, 1 - total / static_cast<double>(tokens));
    return sums;
  };
  std::vector<std::int32_t> const two(2, 0), six(6, 0);
  Tensor const no_logits(Dtype::f32, 1);
  Tensor first = sums_of(2, 8), second = sums_of(6, 9), loss(Dtype::f32, 1);
  run(host_kernels().cross_entropy_loss,
      CrossEntropyLossArgs{shape_of(no_logits, two, 1, 0, 1), first.floats(), loss.floats(), 1.0f / 8, false});
  run(host_kernels().cross_entropy_loss,
      CrossEntropyLossArgs{shape_of(no_logits, six, 1, 0, 1), second.floats(), loss.floats(), 1.0f / 8, true});
  EXPECT_NEAR(loss.at(0), 2.125, 1e-5);
}

TEST(CrossEntropy, HostEqualsReference) {
  for (Dtype const dtype : storage_dtypes) {
    for (std::int64_t const columns : {8, 37, 300}) {
      std::vector<std::int32_t> const targets = {0, 3, -1, 5, 5, static_cast<std::int32_t>(columns) - 3};
      Tensor const logits = Tensor::random(dtype, 6 * columns, 1, 3.0);
      float const softcap = columns == 8 ? 0.0f : 2.5f;
      CrossEntropyShape const shape = shape_of(logits, targets, columns, 0, columns - 2, softcap);
      Result const actual = compute(host_kernels(), shape, 0.25f),
                   expected = compute(reference_kernels(), shape, 0.25f);
      EXPECT_TRUE(close(actual.maximum, expected.maximum, tolerance(Dtype::f32)));
      EXPECT_TRUE(close(actual.sums, expected.sums, tolerance(Dtype::f32, columns)));
      EXPECT_TRUE(close(actual.loss, expected.loss, tolerance(Dtype::f32, columns)));
      EXPECT_TRUE(close(actual.dlogits, expected.dlogits, tolerance(dtype, columns)));
    }
  }
}

TEST(CrossEntropy, KnownLossOfEqualLogits) {
  Tensor logits(Dtype::f32, 2 * 10);
  for (std::int64_t i = 0; i < logits.count(); ++i) logits.set(i, 4);
  std::vector<std::int32_t> const targets = {1, 6};
  Result const result = compute(host_kernels(), shape_of(logits, targets, 10, 0, 8), 0.5f);
  EXPECT_NEAR(result.loss.at(0), std::log(8.0), 1e-6);
  EXPECT_NEAR(result.dlogits.at(0), 0.5 / 8, 1e-7);
  EXPECT_NEAR(result.dlogits.at(1), 0.5 / 8 - 0.5, 1e-7);
  EXPECT_EQ(result.dlogits.at(9), 0);
}

/// Columns [first, first + columns) of [tokens, 24] logits.
Tensor cut(Tensor const& logits, std::int64_t tokens, std::int64_t first, std::int64_t columns) {
  Tensor part(logits.dtype(), tokens * columns);
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t c = 0; c < columns; ++c) part.set(t * columns + c, logits.at(t * 24 + first + c));
  }
  return part;
}

TEST(CrossEntropy, ShardsGiveTheWholeLossAndGradient) {
  constexpr std::int64_t columns = 24, cut_columns = 8;  // the last of three shards is padding but for one column
  std::vector<std::int32_t> const targets = {0, 7, 8, 16, -1};
  Tensor const logits = Tensor::random(Dtype::f32, 5 * columns, 1, 2.0);
  Result const whole = compute(host_kernels(), shape_of(logits, targets, columns, 0, 17), 1.0f);
  std::vector<Tensor> parts;
  for (std::int64_t s = 0; s < 3; ++s) parts.push_back(cut(logits, 5, s * cut_columns, cut_columns));
  Tensor maximum = Tensor(Dtype::f32, 5), sums(Dtype::f32, 10), loss(Dtype::f32, 1);
  for (std::int64_t t = 0; t < 5; ++t) maximum.set(t, -1e30);
  for (std::int64_t i = 0; i < 10; ++i) sums.set(i, 0);
  for (std::size_t s = 0; s < 3; ++s) {
    auto const shape = shape_of(parts[s], targets, cut_columns, static_cast<std::int64_t>(s) * cut_columns, 17);
    Tensor mine(Dtype::f32, 5);
    run(host_kernels().cross_entropy_max, CrossEntropyMaxArgs{shape, mine.floats()});
    for (std::int64_t t = 0; t < 5; ++t) maximum.set(t, std::max(maximum.at(t), mine.at(t)));
  }
  for (std::size_t s = 0; s < 3; ++s) {
    auto const shape = shape_of(parts[s], targets, cut_columns, static_cast<std::int64_t>(s) * cut_columns, 17);
    Tensor mine(Dtype::f32, 10);
    run(host_kernels().cross_entropy_sum, CrossEntropySumArgs{shape, maximum.floats(), mine.floats()});
    for (std::int64_t i = 0; i < 10; ++i) sums.set(i, sums.at(i) + mine.at(i));
  }
  for (std::size_t s = 0; s < 3; ++s) {
    auto const first = static_cast<std::int64_t>(s) * cut_columns;
    auto const shape = shape_of(parts[s], targets, cut_columns, first, 17);
    run(host_kernels().cross_entropy_loss, CrossEntropyLossArgs{shape, sums.floats(), loss.floats(), 1.0f, false});
    EXPECT_NEAR(loss.at(0), whole.loss.at(0), 1e-5);
    run(host_kernels().cross_entropy_backward,
        CrossEntropyBackwardArgs{shape, maximum.floats(), sums.floats(), parts[s].data(), 1.0f});  // in place
    Tensor const expected = cut(whole.dlogits, 5, first, cut_columns);
    for (std::int64_t i = 0; i < expected.count(); ++i) EXPECT_NEAR(parts[s].at(i), expected.at(i), 1e-6);
  }
}

TEST(CrossEntropy, AShardOfPaddingHasNoMaximum) {
  Tensor const logits = Tensor::random(Dtype::f32, 8, 1);
  std::vector<std::int32_t> const targets = {3};
  CrossEntropyShape const shape = shape_of(logits, targets, 8, 16, 10, 30.0f);
  Tensor maximum(Dtype::f32, 1), sums(Dtype::f32, 2);
  run(host_kernels().cross_entropy_max, CrossEntropyMaxArgs{shape, maximum.floats()});
  EXPECT_EQ(maximum.at(0), -std::numeric_limits<double>::infinity());
  maximum.set(0, 1.5);  // what the other ranks found
  run(host_kernels().cross_entropy_sum, CrossEntropySumArgs{shape, maximum.floats(), sums.floats()});
  EXPECT_EQ(sums.at(0), 0);
  EXPECT_EQ(sums.at(1), 0);
}

TEST(CrossEntropy, BackwardIsTheDerivativeOfTheLoss) {
  std::vector<std::int32_t> const targets = {2, 0, -1};
  Tensor exact = Tensor::random(Dtype::f64, 3 * 7, 1);
  Tensor const rounded = exact.as(Dtype::f32);
  // The loss kernel stores fp32, too coarse for differences: the sums of both are composed in double here.
  auto const loss = [&] {
    double total = 0;
    for (std::int64_t t = 0; t < 2; ++t) {
      double sum = 0;
      for (std::int64_t c = 0; c < 6; ++c) sum += std::exp(exact.at(t * 7 + c));
      total += std::log(sum) - exact.at(t * 7 + targets[static_cast<std::size_t>(t)]);
    }
    return total;
  };
  Result const actual = compute(host_kernels(), shape_of(rounded, targets, 7, 0, 6), 1.0f);
  EXPECT_NEAR(actual.loss.at(0), loss(), 1e-5);
  EXPECT_TRUE(close(actual.dlogits, finite_differences(exact, loss), gradient_tolerance));
}

// Capped logits are what a loss without a cap would see had they been capped before; the slope is the chain rule's.
TEST(CrossEntropy, SoftCapIsATanhBeforeTheLoss) {
  constexpr double cap = 2;
  std::vector<std::int32_t> const targets = {2, 0, -1};
  Tensor exact = Tensor::random(Dtype::f64, 3 * 7, 1, 3.0);
  Tensor const rounded = exact.as(Dtype::f32);
  auto const loss = [&] {
    double total = 0;
    auto const at = [&](std::int64_t t, std::int64_t c) { return cap * std::tanh(exact.at(t * 7 + c) / cap); };
    for (std::int64_t t = 0; t < 2; ++t) {
      double sum = 0;
      for (std::int64_t c = 0; c < 6; ++c) sum += std::exp(at(t, c));
      total += std::log(sum) - at(t, targets[static_cast<std::size_t>(t)]);
    }
    return total;
  };
  Result const actual = compute(host_kernels(), shape_of(rounded, targets, 7, 0, 6, static_cast<float>(cap)), 1.0f);
  EXPECT_NEAR(actual.loss.at(0), loss(), 1e-5);
  EXPECT_TRUE(close(actual.dlogits, finite_differences(exact, loss), gradient_tolerance));
}

TEST(CrossEntropy, LossAccumulates) {
  Tensor const logits = Tensor::random(Dtype::f32, 20, 1);
  std::vector<std::int32_t> const targets = {1, 2};
  CrossEntropyShape const shape = shape_of(logits, targets, 10, 0, 10);
  Result result = compute(host_kernels(), shape, 1.0f);
  double const once = result.loss.at(0);
  run(host_kernels().cross_entropy_loss,
      CrossEntropyLossArgs{shape, result.sums.floats(), result.loss.floats(), 1.0f, true});
  EXPECT_NEAR(result.loss.at(0), 2 * once, 1e-6);
}

}  // namespace
}  // namespace shardbench::test
