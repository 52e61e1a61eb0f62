#include <gtest/gtest.h>

#include <cmath>

#include "harness/calibrate/profile_text.hpp"
#include "harness/simulate/predict.hpp"

namespace shardbench {
namespace {

MachineMeasurement round_of(double pace) {
  MachineMeasurement m;
  m.device = "CPU", m.backend = "cpu", m.communication = "mpi", m.ranks = m.ranks_per_host = 2;
  m.memory_bytes = 8e9, m.copy_gb_per_s = 12 / pace, m.launch_us = pace, m.overlap_slowdown = 0.5 * pace;
  m.gemm = {{64, 64, 64, 10 * pace}, {512, 512, 512, 3000 * pace}};
  m.products = {{false, true, {{64, 768, 768, 900 * pace}, {128, 768, 768, 1700 * pace}}}};
  m.kernels = {{OpKind::norm_forward, 1, {{1e6, 150 * pace}, {1e4, 2 * pace}}}};
  m.levels = {{"within a host", 0, {{OpKind::all_reduce, 2, {{1024, 5 * pace}, {2048, 8 * pace}}}}}};
  return m;
}

// One slow round of three leaves no trace, wherever it comes.
TEST(MedianOf, ASlowRoundDoesNotCount) {
  MachineMeasurement const m = median_of({round_of(2), round_of(1), round_of(1)});
  EXPECT_EQ(m.copy_gb_per_s, 12);
  EXPECT_EQ(m.launch_us, 1);
  EXPECT_EQ(m.overlap_slowdown, 0.5);
  ASSERT_EQ(m.gemm.size(), 2u);
  EXPECT_EQ(m.gemm[1].us, 3000);
  ASSERT_EQ(m.products.size(), 1u);
  EXPECT_EQ(m.products[0].samples, (std::vector<std::array<double, 4>>{{64, 768, 768, 900}, {128, 768, 768, 1700}}));
  ASSERT_EQ(m.kernels.size(), 1u);
  ASSERT_EQ(m.kernels[0].points.size(), 2u);
  EXPECT_EQ(m.kernels[0].points[0].bytes, 1e4);
  EXPECT_EQ(m.kernels[0].points[1].time_us, 150);
  EXPECT_EQ(m.levels[0].curves[0].points[1].time_us, 8);
}

// A message that only one round had the time for stays.
TEST(MedianOf, KeepsWhatOneRoundReached) {
  MachineMeasurement longer = round_of(1);
  longer.levels[0].curves[0].points.push_back({4096, 20});
  MachineMeasurement const m = median_of({longer, round_of(3), round_of(1)});
  ASSERT_EQ(m.levels[0].curves[0].points.size(), 3u);
  EXPECT_EQ(m.levels[0].curves[0].points[1].time_us, 8);
  EXPECT_EQ(m.levels[0].curves[0].points[2].time_us, 20);
}

// Two shapes of nearly one size make one point, their middle; each is a median first.
TEST(MedianOf, JoinsNeighbouringSizes) {
  MachineMeasurement m = round_of(1);
  m.kernels = {{OpKind::norm_forward, 1, {{1000, 10}, {1000, 90}, {1000, 12}, {1200, 16}, {4000, 40}}}};
  m = median_of({m});
  ASSERT_EQ(m.kernels[0].points.size(), 2u);
  EXPECT_EQ(m.kernels[0].points[0].bytes, 1100);
  EXPECT_EQ(m.kernels[0].points[0].time_us, 14);
}

// A step that takes what its parts and a fifth of its compute tell has an excess of a fifth.
TEST(SetExcess, FindsTheShareOfCompute) {
  MachineMeasurement m = round_of(1);
  Experiment e;
  for (auto const& [field, value] : {std::pair{"model", "gpt2"},
                                     {"layers", "2"},
                                     {"seq", "64"},
                                     {"scope", "layer"},
                                     {"tp", "2"},
                                     {"global-batch", "4"}})
    set_field(e, field, value);
  resolve(e);
  SystemProfile told = make_profile(m, "parts").profile;
  told.device.excess.tp = 0.2;
  double const ms = predict_step(e, CostModel(told, load_stack("ours")), {.record_spans = false}).step_ms;
  m.steps = {{.axis = "tp", .experiment = e, .ms = {ms, ms, ms}}};
  set_excess(m);
  EXPECT_NEAR(m.excess.tp, 0.2, 1e-3);
  EXPECT_GT(ms, m.steps[0].told_ms);
  EXPECT_EQ(m.excess.dp, 0);
}

// Of 0.3 with a deviation of 0.1 in four values (a standard error of 0.1 / 2 x 1.2533) about 0.17 is left; of less than
// two errors nothing, on either side of 0.
TEST(BeyondChance, IsLessThanTheMedianAndOfItsSign) {
  double const d = 0.1 * std::sqrt(0.75);
  EXPECT_NEAR(beyond_chance({0.3 - d, 0.3 - d, 0.3 + d, 0.3 + d}), 0.3 - 2 * 1.2533 * 0.05, 1e-12);
  EXPECT_NEAR(beyond_chance({-0.3 - d, -0.3 + d, -0.3 - d, -0.3 + d}), -0.3 + 2 * 1.2533 * 0.05, 1e-12);
  EXPECT_EQ(beyond_chance({0.1 - d, 0.1 - d, 0.1 + d, 0.1 + d}), 0);
  EXPECT_EQ(beyond_chance({-0.01, 0.4}), 0);
  EXPECT_EQ(beyond_chance({0.2}), 0.2);
  EXPECT_EQ(beyond_chance({}), 0);
}

}  // namespace
}  // namespace shardbench
