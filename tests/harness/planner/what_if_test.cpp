// Each what-if is the step with just that changed, simulated again.
#include "harness/planner/what_if.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/planner/demands.hpp"
#include "tests/harness/planner/planned_models.hpp"

namespace shardbench::test {
namespace {

TEST(WhatIf, HardwareChangesAreTheSameCutOnChangedHardware) {
  CostModel const model = h100();
  PlanRequest const request =
      request_for(base_of("llama3.1-8b", 4, 1024, 8), 16, {.fix = {"tp=4", "dp=4", "micro-batch=1"}, .exclude = {}});
  PlannedPoint const best = look_closer(request, model, {.tp = 4, .dp = 4});
  std::vector<WhatIf> const ifs = hardware_what_ifs(request, model, best, {});
  ASSERT_EQ(ifs.size(), 6u);
  auto const on = [&](auto change) {
    SystemProfile system = model.system();
    change(system);
    return look_closer(request, CostModel(system, model.stack()), best.candidate).step_ms;
  };
  EXPECT_DOUBLE_EQ(ifs[0].same_cut_ms, on([](SystemProfile& s) { s.network[0].bandwidth_gb_per_s *= 2; }));
  EXPECT_DOUBLE_EQ(ifs[1].same_cut_ms, on([](SystemProfile& s) { s.network[1].bandwidth_gb_per_s *= 2; }));
  EXPECT_DOUBLE_EQ(ifs[2].same_cut_ms, on([](SystemProfile& s) {
                     s.network[0].bandwidth_gb_per_s *= 2, s.network[1].bandwidth_gb_per_s *= 2;
                   }));
  EXPECT_DOUBLE_EQ(ifs[3].same_cut_ms, on([](SystemProfile& s) { s.device.memory_gb_per_s *= 2; }));
  EXPECT_DOUBLE_EQ(ifs[4].same_cut_ms, best.step_ms) << "more memory makes the same cut no faster";
  EXPECT_DOUBLE_EQ(ifs[5].same_cut_ms, on([](SystemProfile& s) { s = load_system("b200"); }));
  for (std::size_t i : {0u, 1u, 2u, 3u, 5u}) EXPECT_LT(ifs[i].same_cut_ms, 0.9999 * best.step_ms) << ifs[i].change;
  EXPECT_EQ(ifs[0].change, "twice the bandwidth of " + model.system().network[0].name);
  EXPECT_EQ(ifs[1].change, "twice the bandwidth of " + model.system().network[1].name);
  EXPECT_EQ(ifs[2].change, "twice the bandwidth of all levels");
  EXPECT_EQ(ifs[3].change, "twice the memory bandwidth");
  EXPECT_EQ(ifs[4].change, "twice the memory");
  EXPECT_EQ(ifs[5].change, "on b200");
}

TEST(WhatIf, CutChangesTurnOneKnobByOneStep) {
  CostModel const model = h100();
  PlanRequest request;
  request.devices = 16;
  request.base = base_of("megatron-1.7b", 8, 1024, 64);
  Candidate const now{.tp = 2, .pp = 2, .dp = 4, .micro_batch = 2, .zero_stage = 1, .schedule = ScheduleKind::zb_h1};
  PlannedPoint const best = look_closer(request, model, now);
  std::vector<WhatIf> const ifs = cut_what_ifs(request, model, best, {});
  auto const same = [&](char const* name, auto change) {
    Candidate c = now;
    change(c);
    auto const found = std::ranges::find(ifs, name, &WhatIf::change);
    ASSERT_NE(found, ifs.end()) << name;
    EXPECT_DOUBLE_EQ(found->same_cut_ms, look_closer(request, model, c).step_ms) << name << found->problem;
  };
  same("twice the tp", [](Candidate& c) { c.tp = 4, c.dp = 2; });
  same("half the tp", [](Candidate& c) { c.tp = 1, c.dp = 8; });
  same("twice the pp", [](Candidate& c) { c.pp = 4, c.dp = 2; });
  same("half the pp", [](Candidate& c) { c.pp = 1, c.dp = 8, c.schedule = ScheduleKind::one_f_one_b; });
  same("twice the micro-batch", [](Candidate& c) { c.micro_batch = 4; });
  same("half the micro-batch", [](Candidate& c) { c.micro_batch = 1; });
  same("full recompute", [](Candidate& c) { c.recompute = Recompute::full; });
  same("plain 1f1b", [](Candidate& c) { c.schedule = ScheduleKind::one_f_one_b; });
  EXPECT_EQ(ifs.size(), 9u);
}

TEST(WhatIf, KnobsAtTheirEndAreLeftOut) {
  CostModel const model = h100();
  PlanRequest request;
  request.devices = 1;
  request.base = base_of("gpt2", 2, 128, 4);
  std::vector<WhatIf> const ifs = cut_what_ifs(request, model, look_closer(request, model, {}), {});
  std::vector<std::string> names;
  for (WhatIf const& w : ifs) names.push_back(w.change);
  EXPECT_EQ(names, (std::vector<std::string>{"twice the micro-batch", "full recompute"}));
}

TEST(WhatIf, ACutThatNeedsTooMuchSaysHowMuch) {
  CostModel const model = h100();
  PlanRequest request;
  request.devices = 8;
  request.base = base_of("llama3.1-8b", 32, 4096, 64);
  Candidate const now{.tp = 8, .micro_batch = 4, .recompute = Recompute::full};
  std::vector<WhatIf> const ifs = cut_what_ifs(request, model, look_closer(request, model, now), {.memory_share = 0.1});
  auto const half = std::ranges::find(ifs, "half the tp", &WhatIf::change);
  ASSERT_NE(half, ifs.end());
  PlannedPoint const point =
      look_closer(request, model, {.tp = 4, .dp = 2, .micro_batch = 4, .recompute = Recompute::full});
  EXPECT_EQ(half->problem, fmt::format("needs {:.3g} GB of 8 GB", 1e-9 * point.memory.needed_bytes));
  EXPECT_EQ(half->same_cut_ms, 0);
}

TEST(WhatIf, TheNextDevice) {
  EXPECT_EQ(next_system("a100-80gb-sxm"), "h100-sxm");
  EXPECT_EQ(next_system("aws-p4d"), "aws-p5");
  EXPECT_EQ(next_system("b200"), "gb200-nvl72");
  EXPECT_EQ(next_system("pcie-box"), "");
}

}  // namespace
}  // namespace shardbench::test
