#include "harness/comm/bus_bandwidth.hpp"

#include <gtest/gtest.h>

namespace shardbench {
namespace {

TEST(BusBandwidth, FactorsOfTheCollectives) {
  EXPECT_DOUBLE_EQ(bus_factor(CommCall::all_reduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(CommCall::all_reduce, 8), 1.75);
  EXPECT_DOUBLE_EQ(bus_factor(CommCall::all_reduce, 16), 1.875);
  EXPECT_NEAR(bus_factor(CommCall::all_reduce, 72), 1.97222, 1e-5);
  for (CommCall call : {CommCall::all_gather, CommCall::reduce_scatter, CommCall::all_to_all})
    EXPECT_DOUBLE_EQ(bus_factor(call, 4), 0.75) << to_string(call);
  for (CommCall call : {CommCall::broadcast, CommCall::send_receive}) EXPECT_DOUBLE_EQ(bus_factor(call, 4), 1);
}

TEST(BusBandwidth, AGroupOfOneHasNoBus) {
  for (int call = 0; call < static_cast<int>(CommCall::size_); ++call) {
    EXPECT_DOUBLE_EQ(bus_factor(static_cast<CommCall>(call), 1), 0);
    EXPECT_DOUBLE_EQ(busbw_gb_per_s(static_cast<CommCall>(call), 1, 1e9, 1e-3), 0);
  }
}

TEST(BusBandwidth, ReproducesAPublishedRow) {
  // 72 ranks: algbw 297.16 GB/s is printed with busbw 586.06.
  EXPECT_NEAR(busbw_gb_per_s(CommCall::all_reduce, 72, 297.16e9, 1), 586.06, 0.01);
  EXPECT_DOUBLE_EQ(algbw_gb_per_s(536870912, 14985.5e-6), 536870912 / 14985.5e-6 / 1e9);
  EXPECT_DOUBLE_EQ(algbw_gb_per_s(0, 1), 0);
  EXPECT_DOUBLE_EQ(algbw_gb_per_s(1, 0), 0) << "no time passed, no rate";
}

TEST(BusBandwidth, RemoteShareOfAnAllToAll) {
  EXPECT_DOUBLE_EQ(remote_share(1), 0);
  EXPECT_DOUBLE_EQ(43 * remote_share(2), 21.5);
  EXPECT_DOUBLE_EQ(bus_factor(CommCall::all_to_all, 16) / remote_share(2), 1.875);
}

}  // namespace
}  // namespace shardbench
