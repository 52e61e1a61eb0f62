#include <gtest/gtest.h>

#include <algorithm>

#include "harness/calibrate/profile_text.hpp"

namespace shardbench {
namespace {

// What is measured is the same on all ranks, whole, and makes a profile.
TEST(MeasureMachine, NetworkAndDevice) {
  auto const world = make_mpi_communicator();
  auto const device = make_host_device();
  RankAgreement agree(*world);
  CalibrationOptions options;
  options.largest_message_bytes = 65536, options.seconds_per_curve = 0.05, options.seconds_per_step = 0.01,
  options.steps_per_axis = 1, options.ranks_per_host = world->size();
  MachineMeasurement m;
  measure_device(*device, agree, options, m);
  measure_network(*device, *world, agree, options, m);
  EXPECT_GE(m.gemm.size(), 20u);
  EXPECT_GT(m.copy_gb_per_s, 0);
  EXPECT_GE(m.overlap_slowdown, 0);
  ASSERT_EQ(m.levels.size(), 1u);
  EXPECT_EQ(m.levels[0].curves.size(), 5u);
  for (MeasuredCurve const& curve : m.levels[0].curves) {
    EXPECT_GE(curve.points.size(), 3u);
    EXPECT_TRUE(std::ranges::is_sorted(curve.points, {}, &NcclPoint::bytes));
    for (NcclPoint const& p : curve.points) EXPECT_EQ(agree.maximum(p.time_us), p.time_us);
  }
  measure_steps(*device, *world, agree, options, m);
  m = median_of({m});
  set_excess(m);
  for (double const share : {m.excess.tp, m.excess.dp, m.excess.pp}) {
    EXPECT_NE(share, 0);
    EXPECT_EQ(agree.maximum(share), share);
  }
  EXPECT_NO_THROW(parse_system_profile(profile_yaml(make_profile(m, "here").profile), "here.yaml"));
}

// Groups of the same place on each host, when a job has several: ranks stand for hosts of one rank here.
TEST(MeasureMachine, LevelsFollowTheHosts) {
  auto const world = make_mpi_communicator();
  auto const device = make_host_device();
  RankAgreement agree(*world);
  CalibrationOptions options;
  options.largest_message_bytes = 4096, options.seconds_per_curve = 0.05, options.ranks_per_host = 1;
  MachineMeasurement m;
  measure_network(*device, *world, agree, options, m);
  ASSERT_EQ(m.levels.size(), 1u);
  EXPECT_EQ(m.levels[0].name, "between hosts");
  EXPECT_EQ(m.levels[0].devices, 0);
}

}  // namespace
}  // namespace shardbench
