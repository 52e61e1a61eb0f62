#include <algorithm>

#include "tests/kernels/compare.hpp"

namespace shardbench::test {
namespace {

Tensor best_of(KernelSet const& kernels, Tensor const& logits, std::int64_t rows, std::int64_t first_column,
               std::int64_t valid_vocab) {
  Tensor best(Dtype::f32, 2 * rows);
  run(kernels.best_token, BestTokenArgs{logits.data(), best.floats(), rows, logits.count() / rows, first_column,
                                        valid_vocab, logits.dtype()});
  return best;
}

std::vector<std::int32_t> pick(KernelSet const& kernels, std::vector<Tensor> const& shards, std::int64_t rows) {
  std::vector<float> best;
  for (Tensor const& shard : shards)
    for (std::int64_t i = 0; i < shard.count(); ++i) best.push_back(static_cast<float>(shard.at(i)));
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(rows), -1);
  run(kernels.pick_token, PickTokenArgs{best.data(), tokens.data(), static_cast<std::int64_t>(shards.size()), rows});
  return tokens;
}

TEST(Greedy, HostEqualsReference) {
  for (Dtype const dtype : storage_dtypes)
    for (std::int64_t const columns : {1, 7, 64, 1000}) {
      Tensor const logits = Tensor::random(dtype, 5 * columns, 1);
      Tensor const actual = best_of(host_kernels(), logits, 5, 32, 30 + columns),
                   expected = best_of(reference_kernels(), logits, 5, 32, 30 + columns);
      for (std::int64_t i = 0; i < 10; ++i) EXPECT_EQ(actual.at(i), expected.at(i)) << columns << ' ' << i;
    }
}

TEST(Greedy, ShardsPickTheTokenOfTheWhole) {
  constexpr std::int64_t rows = 4, columns = 24, part = 8;
  Tensor const logits = Tensor::random(Dtype::f32, rows * columns, 3);
  std::vector<Tensor> shards;
  for (std::int64_t s = 0; s < 3; ++s) {
    Tensor mine(Dtype::f32, rows * part);
    for (std::int64_t i = 0; i < mine.count(); ++i) mine.set(i, logits.at(i / part * columns + s * part + i % part));
    shards.push_back(best_of(host_kernels(), mine, rows, s * part, 17));  // of the last shard one column counts
  }
  auto const tokens = pick(host_kernels(), shards, rows);
  EXPECT_EQ(tokens, pick(reference_kernels(), shards, rows));
  for (std::int64_t r = 0; r < rows; ++r) {
    std::int64_t best = 0;
    for (std::int64_t c = 1; c < 17; ++c)
      if (logits.at(r * columns + c) > logits.at(r * columns + best)) best = c;
    EXPECT_EQ(tokens[static_cast<std::size_t>(r)], best);
  }
}

TEST(Greedy, EqualLogitsGiveTheLowestColumn) {
  Tensor logits(Dtype::f32, 300);
  for (std::int64_t c = 0; c < 300; ++c) logits.set(c, c == 41 || c == 260 ? 2 : 1);
  for (KernelSet const* const kernels : {&host_kernels(), &reference_kernels()}) {
    Tensor const low = best_of(*kernels, logits, 1, 0, 300), high = best_of(*kernels, logits, 1, 300, 600);
    EXPECT_EQ(low.at(1), 41);
    EXPECT_EQ(high.at(1), 341);
    EXPECT_EQ(pick(*kernels, {low, high}, 1), std::vector<std::int32_t>{41});
  }
}

TEST(Greedy, AShardOfPaddingNeverWins) {
  Tensor const logits = Tensor::random(Dtype::f32, 8, 1);
  Tensor const none = best_of(host_kernels(), logits, 1, 16, 10), some = best_of(host_kernels(), logits, 1, 0, 8);
  EXPECT_EQ(none.at(0), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(pick(host_kernels(), {none, some}, 1)[0], static_cast<std::int32_t>(some.at(1)));
}

}  // namespace
}  // namespace shardbench::test
