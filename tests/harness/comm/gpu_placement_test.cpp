#include "harness/comm/gpu_placement.hpp"

#include <gtest/gtest.h>

#include "kernels/core/error.hpp"

namespace shardbench::test {
namespace {

std::string refusal(std::vector<RankPlace> const& ranks, std::size_t rank) {
  try {
    choose_gpu(ranks, rank, false);
  } catch (IllegalConfig const& error) {
    return error.what();
  }
  return {};
}

TEST(GpuPlacement, RanksOfEachMachineTakeOneEach) {
  std::vector<RankPlace> const ranks{
      {"a", {"a0", "a1"}}, {"b", {"b0", "b1"}}, {"a", {"a0", "a1"}}, {"b", {"b0", "b1"}}};
  std::vector<int> const expected{0, 0, 1, 1};
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    EXPECT_EQ(choose_gpu(ranks, r, false).ordinal, expected[r]) << r;
    EXPECT_EQ(choose_gpu(ranks, r, false).sharers, 1) << r;
  }
}

TEST(GpuPlacement, ARankThatIsShownItsOwnGpuOnlyTakesThat) {
  std::vector<RankPlace> const ranks{{"a", {"g0"}}, {"a", {"g1"}}, {"a", {"g2"}}};
  for (std::size_t r = 0; r < ranks.size(); ++r) EXPECT_EQ(choose_gpu(ranks, r, false).ordinal, 0);
}

TEST(GpuPlacement, PartlyShownGpusAreNotSharedWithoutNeed) {
  std::vector<RankPlace> const ranks{{"a", {"g0", "g1"}}, {"a", {"g0", "g2"}}};
  EXPECT_EQ(choose_gpu(ranks, 0, false).ordinal, 0);
  EXPECT_EQ(choose_gpu(ranks, 1, false).ordinal, 1);
}

// L01: two ranks on one device are refused before NCCL sees them, with both numbers.
TEST(GpuPlacement, MoreRanksThanGpusAreRefusedWithBothNumbersOnEveryRank) {
  std::vector<RankPlace> const ranks{{"node1", {"x"}}, {"node2", {"y"}}, {"node2", {"y"}}};
  for (std::size_t r = 0; r < ranks.size(); ++r)
    EXPECT_EQ(refusal(ranks, r),
              "ranks: 2 ranks on node2, which has 1 GPU: NCCL takes one rank a GPU (allowed: 1; or --share-gpu, for "
              "the right numbers only)");
  EXPECT_NE(
      refusal({{"a", {"0", "1"}}, {"a", {"0", "1"}}, {"a", {"0", "1"}}}, 0).find("3 ranks on a, which has 2 GPUs"),
      std::string::npos);
}

TEST(GpuPlacement, SharedGpusAreTakenInTurns) {
  std::vector<RankPlace> const ranks(5, RankPlace{"a", {"0", "1"}});
  std::vector<int> const ordinals{0, 1, 0, 1, 0}, sharers{3, 2, 3, 2, 3};
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    EXPECT_EQ(choose_gpu(ranks, r, true).ordinal, ordinals[r]) << r;
    EXPECT_EQ(choose_gpu(ranks, r, true).sharers, sharers[r]) << r;
  }
}

TEST(GpuPlacement, ARankWithoutAGpuIsNamed) {
  EXPECT_EQ(refusal({{"a", {"0"}}, {"b", {}}}, 0), "device: rank 1 sees no GPU on b");
}

}  // namespace
}  // namespace shardbench::test
