// Reports of people who choose between cuts, as the planner's own comparisons.
#include <gtest/gtest.h>

#include <set>

#include "harness/planner/objective.hpp"
#include "harness/planner/plan_space.hpp"
#include "tests/harness/planner/planned_models.hpp"

namespace shardbench {
namespace {

TEST(Cases, S02_EightDevicesAreNoTpOfEightFor28Heads) {
  PlanRequest r;
  r.devices = 8;
  r.base = test::base_of("qwen2-7b", 4, 128, 8);
  r.axes = default_axes(r.base, r.devices);
  std::set<int> tp;
  for_each_candidate(r, [&](Candidate const& c) {
    tp.insert(c.tp);
    if (c.pp * c.cp == 1) {
      EXPECT_GE(c.dp, 2);
    }
  });
  EXPECT_EQ(tp, (std::set<int>{1, 2, 4}));
}

// Throughput and memory of four schedules as reported; ZB-2P, which there is no generator for, stands as zb-h1 here.
TEST(Cases, P06_TheFastestScheduleOfAMemoryLimit) {
  struct Fact {
    ScheduleKind schedule;
    double samples_per_s, gb;
  };
  constexpr Fact facts[] = {{ScheduleKind::one_f_one_b, 55, 48},
                            {ScheduleKind::interleaved, 66, 57},
                            {ScheduleKind::zb_h1, 67, 79},
                            {ScheduleKind::zb_v, 64, 53}};
  ScreenedFront front;
  std::vector<PlanScore> scores;
  for (Fact const& f : facts) {
    Candidate c;
    c.schedule = f.schedule;
    PlanCost cost;
    cost.step_ms = 1e3 / f.samples_per_s;
    cost.memory_bytes = f.gb * 1e9;
    front.add(c, cost);
    scores.push_back({cost.step_ms, cost.memory_bytes, 0});
  }
  EXPECT_EQ(pareto_front(scores), std::vector<bool>(4, true)) << "each buys speed with memory";
  std::vector<ScreenedPoint> const points = front.points();
  ASSERT_EQ(points.size(), 4u);
  auto const fastest_within = [&](double gb) {
    for (ScreenedPoint const& p : points)
      if (p.cost.memory_bytes <= gb * 1e9) return p.candidate.schedule;
    return ScheduleKind::gpipe;
  };
  EXPECT_EQ(fastest_within(80), ScheduleKind::zb_h1);
  EXPECT_EQ(fastest_within(60), ScheduleKind::interleaved);
  EXPECT_EQ(fastest_within(55), ScheduleKind::zb_v);
  EXPECT_EQ(fastest_within(50), ScheduleKind::one_f_one_b);
}

}  // namespace
}  // namespace shardbench
