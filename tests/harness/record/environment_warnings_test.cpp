#include "harness/record/environment_warnings.hpp"

#include <gtest/gtest.h>

namespace shardbench::test {
namespace {

using Lines = std::vector<std::string>;

// L08: a variable left behind that turned NVLink off cost most of the bandwidth.
TEST(EnvironmentWarnings, PeersTurnedOffOnAMachineWithNvlink) {
  EXPECT_EQ(environment_warnings({{"NCCL_P2P_LEVEL", "LOC"}}, 12),
            Lines{"NCCL_P2P_LEVEL=LOC turns NVLink off, and a GPU here has 12 links; unset it"});
  EXPECT_EQ(environment_warnings({{"NCCL_P2P_DISABLE", "1"}}, 18),
            Lines{"NCCL_P2P_DISABLE=1 turns NVLink off, and a GPU here has 18 links; unset it"});
  EXPECT_EQ(environment_warnings({{"NCCL_P2P_DISABLE", "1"}}, -1),
            Lines{"NCCL_P2P_DISABLE=1 keeps GPUs from reaching each other's memory; unset it"});
}

TEST(EnvironmentWarnings, WhatIsOffOrHarmlessIsNotNamed) {
  EXPECT_EQ(environment_warnings({{"NCCL_P2P_DISABLE", "0"},
                                  {"NCCL_P2P_LEVEL", "NVL"},
                                  {"NCCL_DEBUG", "INFO"},
                                  {"OMP_NUM_THREADS", "4"},
                                  {"CUDA_LAUNCH_BLOCKING", ""}},
                                 12),
            Lines{});
}

TEST(EnvironmentWarnings, EachHasItsOwnLine) {
  Lines const lines = environment_warnings({{"CUDA_LAUNCH_BLOCKING", "1"}, {"NCCL_IB_DISABLE", "1"}}, 0);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].rfind("CUDA_LAUNCH_BLOCKING=1 ", 0), 0u);
  EXPECT_EQ(lines[1].rfind("NCCL_IB_DISABLE=1 ", 0), 0u);
}

}  // namespace
}  // namespace shardbench::test
