// Who computes which part of attention when the sequence is cut over ranks.
#include "harness/program/graph/context_blocks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace shardbench::test {
namespace {

bool visible(ContextRule const& rule, std::int64_t q, std::int64_t k) {
  return (rule.mask == AttentionMask::none || k <= q) && (rule.window == 0 || q - k < rule.window);
}

std::vector<std::int64_t> positions(std::vector<DimRange> const& pieces) {
  std::vector<std::int64_t> all;
  for (DimRange const& piece : pieces)
    for (std::int64_t s = 0; s < piece.size; ++s) all.push_back(piece.begin + s);
  return all;
}

constexpr std::int64_t seq = 48;
std::vector<std::int64_t> const ring_sizes{1, 2, 3, 4};
std::vector<ContextRule> const rules{{AttentionMask::causal, 0}, {AttentionMask::causal, 7}, {AttentionMask::none, 0}};

/// Adds the pairs that a block computes, as its kernel sees them: by rows and the offset alone.
void add_pairs(ContextBlock const& b, std::vector<std::int64_t> const& q, std::vector<std::int64_t> const& k,
               std::multiset<std::pair<std::int64_t, std::int64_t>>& pairs) {
  double count = 0;
  for (std::int64_t i = 0; i < b.q.size; ++i)
    for (std::int64_t j = 0; j < b.k.size; ++j)
      if (visible(b.rule, i + b.q_offset, j)) {
        pairs.emplace(q[static_cast<std::size_t>(b.q.begin + i)], k[static_cast<std::size_t>(b.k.begin + j)]);
        ++count;
      }
  EXPECT_EQ(b.pairs, count);
}

std::multiset<std::pair<std::int64_t, std::int64_t>> expected_pairs(ContextRule const& rule) {
  std::multiset<std::pair<std::int64_t, std::int64_t>> pairs;
  for (std::int64_t q = 0; q < seq; ++q)
    for (std::int64_t k = 0; k < seq; ++k)
      if (visible(rule, q, k)) pairs.emplace(q, k);
  return pairs;
}

TEST(ContextBlocks, EveryVisiblePairIsComputedOnce) {
  for (ShardLayout const layout : {ShardLayout::zigzag, ShardLayout::contiguous})
    for (ContextRule const& rule : rules)
      for (std::int64_t const ranks : ring_sizes) {
        std::multiset<std::pair<std::int64_t, std::int64_t>> ring, gathered;
        std::vector<std::int64_t> natural(seq);
        std::iota(natural.begin(), natural.end(), 0);
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          auto const q = positions(context_pieces(layout, seq, ranks, rank));
          auto const steps = ring_blocks(layout, seq, ranks, rank, rule);
          ASSERT_EQ(steps.size(), static_cast<std::size_t>(ranks));
          for (std::int64_t s = 0; s < ranks; ++s) {
            auto const k = positions(context_pieces(layout, seq, ranks, (rank - s + ranks) % ranks));
            for (ContextBlock const& b : steps[static_cast<std::size_t>(s)]) add_pairs(b, q, k, ring);
          }
          for (ContextBlock const& b : gathered_blocks(layout, seq, ranks, rank, rule))
            add_pairs(b, q, natural, gathered);
        }
        EXPECT_EQ(ring, expected_pairs(rule));
        EXPECT_EQ(gathered, expected_pairs(rule));
      }
}

TEST(ContextBlocks, PiecesCoverTheSequenceOnce) {
  for (ShardLayout const layout : {ShardLayout::zigzag, ShardLayout::contiguous}) {
    std::vector<std::int64_t> all;
    for (std::int64_t rank = 0; rank < 4; ++rank)
      for (std::int64_t const p : positions(context_pieces(layout, seq, 4, rank))) all.push_back(p);
    std::ranges::sort(all);
    std::vector<std::int64_t> natural(seq);
    std::iota(natural.begin(), natural.end(), 0);
    EXPECT_EQ(all, natural);
  }
  EXPECT_EQ(context_pieces(ShardLayout::zigzag, 3000, 4, 1), (std::vector<DimRange>{{375, 375}, {2250, 375}})) << "X01";
}

/// Work of the busiest rank over the mean.
double imbalance(ShardLayout layout, std::int64_t length, std::int64_t ranks) {
  double most = 0, sum = 0;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    double work = 0;
    for (auto const& step : ring_blocks(layout, length, ranks, rank, {}))
      for (ContextBlock const& b : step) work += b.pairs;
    most = std::max(most, work);
    sum += work;
  }
  return most / (sum / static_cast<double>(ranks));
}

TEST(Cases, X01_ZigzagBalancesCausalWork) {
  EXPECT_DOUBLE_EQ(imbalance(ShardLayout::zigzag, 3000, 4), 1);
  // (2R - 1) / R but for the diagonal, half a row of pairs.
  EXPECT_NEAR(imbalance(ShardLayout::contiguous, 3000, 4), 1.75, 1e-3);
  EXPECT_NEAR(imbalance(ShardLayout::contiguous, 3000, 4) / (13.87 / 8.30), 1, 0.05) << "as measured, in ms";
  std::vector<std::int64_t> contiguous;
  for (std::int64_t rank = 0; rank < 4; ++rank) contiguous.push_back(chunk_range(2999, 4, rank).size);
  EXPECT_EQ(contiguous, (std::vector<std::int64_t>{750, 750, 750, 749}));
}

TEST(ContextBlocks, CausalZigzagStepsAreOneRectangle) {
  auto const steps = ring_blocks(ShardLayout::zigzag, 32, 4, 2, {});
  EXPECT_EQ(steps[0], (std::vector<ContextBlock>{{{0, 8}, {0, 8}, {}, 0, 36}}));
  // Keys of a lower rank: all queries see its first piece.
  ASSERT_EQ(steps[1].size(), 1u);
  EXPECT_EQ(steps[1][0].q, (DimRange{0, 8}));
  EXPECT_EQ(steps[1][0].k, (DimRange{0, 4}));
  EXPECT_EQ(steps[1][0].rule.mask, AttentionMask::none);
  // Of a higher one: the second piece of the queries sees all of them.
  ASSERT_EQ(steps[3].size(), 1u);
  EXPECT_EQ(steps[3][0].q, (DimRange{4, 4}));
  EXPECT_EQ(steps[3][0].k, (DimRange{0, 8}));
}

}  // namespace
}  // namespace shardbench::test
