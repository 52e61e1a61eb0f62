#include "harness/comm/nccl_options.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace shardbench::test {
namespace {

TEST(NcclOptions, NothingAskedForSetsNothing) {
  EXPECT_TRUE(nccl_environment({}).empty());
  EXPECT_EQ(text_of({}, false), "");
}

TEST(NcclOptions, BecomeTheVariablesThatNcclReads) {
  NcclOptions const options{"NVLSTree", "LL128", 8};
  EXPECT_EQ(nccl_environment(options), (EnvironmentSettings{{"NCCL_ALGO", "NVLSTree"},
                                                            {"NCCL_PROTO", "LL128"},
                                                            {"NCCL_MIN_NCHANNELS", "8"},
                                                            {"NCCL_MAX_NCHANNELS", "8"}}));
  EXPECT_EQ(text_of(options, false), "algo=NVLSTree proto=LL128 channels=8");
  EXPECT_EQ(text_of({"Ring", "", 0}, true), "algo=Ring share-gpu");
  EXPECT_EQ(nccl_environment({"", "Simple", 0}), (EnvironmentSettings{{"NCCL_PROTO", "Simple"}}));
}

TEST(NcclOptions, RanksThatShareAGpuSeemToBeOnHostsOfTheirOwn) {
  EnvironmentSettings const zero = shared_gpu_environment(0), three = shared_gpu_environment(3);
  EXPECT_EQ(zero, (EnvironmentSettings{{"NCCL_HOSTID", "r0"},
                                       {"NCCL_NET", "Socket"},
                                       {"NCCL_IB_DISABLE", "1"},
                                       {"NCCL_SOCKET_IFNAME", "lo"},
                                       {"NCCL_MNNVL_ENABLE", "0"},
                                       {"NCCL_NVLS_ENABLE", "0"},
                                       {"NCCL_MAX_CTAS", "2"}}));
  EXPECT_EQ(three.front(), (std::pair<std::string, std::string>{"NCCL_HOSTID", "r3"}));
  EXPECT_EQ(EnvironmentSettings(zero.begin() + 1, zero.end()), EnvironmentSettings(three.begin() + 1, three.end()));
}

TEST(NcclOptions, AreAppliedToThisProcess) {
  apply({{"SHARDBENCH_TEST_VARIABLE", "a"}});
  apply({{"SHARDBENCH_TEST_VARIABLE", "b"}});
  EXPECT_STREQ(std::getenv("SHARDBENCH_TEST_VARIABLE"), "b");
  unsetenv("SHARDBENCH_TEST_VARIABLE");
}

}  // namespace
}  // namespace shardbench::test
