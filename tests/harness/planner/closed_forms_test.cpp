// What the planner tells by closed forms and by played schedules, against the whole step simulated: times, and the
// memory of the fullest stage, which is what decides what fits.
#include <gtest/gtest.h>

#include "harness/planner/plan.hpp"
#include "harness/planner/plan_cost.hpp"
#include "tests/harness/planner/planned_models.hpp"

namespace shardbench::test {
namespace {

struct Told {
  char const* model;
  std::int64_t layers;
  Candidate cut;
};

Candidate with(Candidate c, auto change) {
  change(c);
  return c;
}

std::vector<Told> told_cuts() {
  std::vector<Told> all;
  Candidate const plain{.dp = 4}, tensor{.tp = 4}, pipe{.pp = 4}, mixed{.tp = 2, .pp = 2, .dp = 2};
  for (Candidate const& c :
       {plain, with(plain, [](Candidate& p) { p.zero_stage = 1; }), with(plain, [](Candidate& p) { p.zero_stage = 2; }),
        with(plain, [](Candidate& p) { p.zero_stage = 3; }), tensor,
        with(tensor, [](Candidate& p) { p.sequence_parallel = true; }),
        with(tensor, [](Candidate& p) { p.recompute = Recompute::selective; }), pipe,
        with(pipe, [](Candidate& p) { p.schedule = ScheduleKind::gpipe; }),
        with(pipe, [](Candidate& p) { p.schedule = ScheduleKind::zb_h1; }),
        with(pipe, [](Candidate& p) { p.schedule = ScheduleKind::interleaved, p.vpp = 2; }),
        with(pipe, [](Candidate& p) { p.schedule = ScheduleKind::dualpipe; }),
        with(pipe, [](Candidate& p) { p.recompute = Recompute::full; }), mixed,
        with(mixed, [](Candidate& p) { p.zero_stage = 1, p.micro_batch = 2; })})
    all.push_back({"megatron-1.7b", 16, c});
  all.push_back({"llama3.1-8b", 8, mixed});
  all.push_back({"llama3.1-8b", 8, {.tp = 2, .cp = 2, .dp = 2}});
  all.push_back({"mixtral-8x7b", 4, {.tp = 2, .ep = 4, .dp = 4, .zero_stage = 1}});
  all.push_back({"deepseek-v2-lite", 6, {.ep = 4, .pp = 2, .dp = 4, .zero_stage = 1}});
  return all;
}

TEST(ClosedForms, AreNearTheSimulatedStep) {
  CostModel const model = h100();
  for (Told const& t : told_cuts()) {
    Candidate const& c = t.cut;
    PlanRequest request;
    request.devices = std::int64_t{c.tp} * c.cp * c.pp * c.dp;
    request.base = base_of(t.model, t.layers, 1024, 32);
    PlanCoster coster(request, model);
    PlanCost const* const cost = coster.cost(c);
    ASSERT_TRUE(cost) << coster.problem();
    Experiment const e = experiment_of(request, c);
    SCOPED_TRACE(command_flags(e));
    PlannedPoint const whole = look_closer(request, model, c);
    double const memory = cost->memory_bytes / whole.memory.needed_bytes, played = coster.played_ms(c) / whole.step_ms,
                 form = cost->step_ms / whole.step_ms;
    // What ZeRO gathers and has not yet cut is not in the closed forms: they tell too little there, never too much.
    // Nor is what a last stage keeps of the head for each microbatch in flight.
    double const below[] = {0.03, 0.03, 0.12, 0.25};
    double const kept = c.schedule == ScheduleKind::gpipe ? 0.2 : c.schedule == ScheduleKind::zb_h1 ? 0.03 : 0;
    EXPECT_GT(memory, 1 - below[c.zero_stage] - kept);
    EXPECT_LT(memory, 1.03);
    EXPECT_NEAR(played, 1, c.zero_stage < 2 ? 0.03 : 0.2);
    EXPECT_NEAR(form, 1, c.zero_stage < 2 ? 0.06 : 0.2);
  }
}

}  // namespace
}  // namespace shardbench::test
