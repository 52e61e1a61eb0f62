// Whether the planner finds the best: its played schedules beside the event simulation, its answers beside brute force
// and beside its own answers to narrower requests.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "harness/planner/plan.hpp"
#include "kernels/core/error.hpp"
#include "tests/harness/planner/planned_models.hpp"

namespace shardbench::test {
namespace {

/// Passes of unlike stages: later ones are slower, the last one by a head.
double stage_factor(std::int64_t stage, std::int64_t stages) {
  return 1 + 0.05 * static_cast<double>(stage) + (stage + 1 == stages ? 0.4 : 0);
}

class UnlikeStages final : public DurationModel {
 public:
  UnlikeStages(std::int64_t stages, PassTimes const& costs) : stages_(stages), costs_(costs) {}
  double compute_ms(StepProgram const& p, Op const& op, bool) const final {
    auto const kind = static_cast<ActionKind>(std::int32_t{op.label});
    double const ms = kind == ActionKind::forward          ? costs_.forward
                      : kind == ActionKind::backward       ? costs_.backward_input + costs_.backward_weight
                      : kind == ActionKind::backward_input ? costs_.backward_input
                                                           : costs_.backward_weight;
    return ms * stage_factor(p.stage, stages_);
  }
  double collective_ms(StepProgram const&, Op const&) const final { return 0; }
  double transfer_ms(StepProgram const&, Op const&) const final { return costs_.transfer; }

 private:
  std::int64_t stages_;
  PassTimes costs_;
};

double walked(PipelineSchedule const& schedule, PassTimes const& costs) {
  WalkOrder const order = walk_order(schedule);
  std::vector<ChunkTimes> times;
  for (std::int32_t stage = 0; stage < schedule.stages; ++stage)
    for (std::int32_t chunk = 0; chunk < schedule.chunks; ++chunk) {
      double const f = stage_factor(stage, schedule.stages);
      ChunkTimes t;
      t.forward = f * costs.forward, t.backward_input = f * costs.backward_input;
      t.backward_weight = f * costs.backward_weight;
      t.activation_in = t.gradient_in = costs.transfer;
      t.output_share = 1;  // these programs' passes are one op
      times.push_back(t);
    }
  ScheduleWalk walk;
  double last = 0;
  for (StageEnd const& end : walk.walk(order, times, ShardTraffic::none, false)) last = std::max(last, end.compute);
  return last;
}

TEST(ScheduleWalk, TakesWhatTheEventSimulationTakes) {
  struct Shape {
    std::int64_t stages, chunks, microbatches;
  };
  for (ScheduleKind const kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved,
                                  ScheduleKind::zb_h1, ScheduleKind::zb_v, ScheduleKind::dualpipe})
    for (Shape const shape : {Shape{2, 2, 4}, Shape{4, 3, 8}, Shape{4, 2, 32}})
      for (double const message : {0.0, 0.1, 1.5}) {
        PipelineSchedule const schedule = make_schedule(kind, shape.stages, shape.chunks, shape.microbatches);
        PassTimes const costs{1, 1.2, 0.7, message};
        double const simulated =
            simulate(schedule_programs(schedule), UnlikeStages(shape.stages, costs), {.record_spans = false}).step_ms;
        EXPECT_NEAR(walked(schedule, costs), simulated, 1e-9 * simulated)
            << to_string(kind) << " " << shape.stages << " " << shape.microbatches << " " << message;
      }
}

struct Space {
  std::string model;
  std::int64_t layers;
  std::string system, stack;
  std::int64_t devices, batch, seq;
  std::vector<std::string> fixed;
};

PlanRequest request_of(Space const& s) {
  PlanRequest r;
  r.devices = s.devices;
  r.base = base_of(s.model, s.layers, s.seq, s.batch);
  r.axes = default_axes(r.base, s.devices);
  for (std::string const& demand : s.fixed) fix_axis(r.axes, demand);
  return r;
}

/// Every legal point simulated, those that fit.
std::vector<PlannedPoint> all_points(PlanRequest const& r, CostModel const& model) {
  std::vector<PlannedPoint> points;
  for_each_candidate(r, [&](Candidate const& c) {
    try {
      points.push_back(look_closer(r, model, c));
      if (!points.back().memory.fits()) points.pop_back();
    } catch (IllegalConfig const&) {
    }
  });
  return points;
}

// Slow links, few microbatches, uneven stages: where closed forms alone went astray.
TEST(PlanSearch, EqualsBruteForceOverSlowLinks) {
  for (Space const& s :
       {Space{"gpt2-xl", 8, "pcie-box", "ours", 16, 64, 1024, {"vpp=1|2", "zero=0|1", "recompute=none"}},
        Space{"gpt2-xl", 8, "pcie-box", "te-2025", 16, 32, 512, {"vpp=1|2", "zero=1|3", "recompute=none"}},
        Space{"mixtral-8x7b",
              4,
              "h100-sxm",
              "te-2025",
              16,
              32,
              1024,
              {"vpp=1", "zero=1", "recompute=none", "tp-overlap=none", "micro-batch=1|2", "ep=1|4|8"}}}) {
    PlanRequest const r = request_of(s);
    CostModel const model(load_system(s.system), load_stack(s.stack));
    PlanResult const planned = plan(r, model, {.top = 1});
    std::vector<PlannedPoint> const all = all_points(r, model);
    ASSERT_FALSE(planned.best.empty());
    double const best = std::ranges::min_element(all, {}, &PlannedPoint::step_ms)->step_ms;
    EXPECT_LE(planned.best.front().step_ms, best * (1 + 1e-9)) << s.model << " " << s.system << " " << s.stack;
  }
}

// Each answer is at least as fast as that to the same request with less to choose from.
TEST(PlanSearch, MoreChoiceIsNeverSlower) {
  std::vector<std::string> const narrower{"schedule=zb-v", "schedule=zb-h1", "schedule=1f1b|interleaved",
                                          "pp=4",          "micro-batch=2",  "zero=1"};
  for (Space const& s :
       {Space{"gpt2-xl", 48, "pcie-box", "ours", 16, 64, 1024, {"recompute=none"}},
        Space{"gpt2-xl", 48, "pcie-box", "ours", 32, 128, 1024, {"recompute=none", "vpp=1|2|4"}},
        Space{"llama3.1-70b",
              80,
              "h100-sxm",
              "te-2025",
              64,
              64,
              4096,
              {"recompute=none|selective", "vpp=1|5", "tp=4|8", "sequence-parallel=true", "zero=1"}}}) {
    PlanRequest const r = request_of(s);
    CostModel const model(load_system(s.system), load_stack(s.stack));
    PlanResult const widest = plan(r, model);
    ASSERT_FALSE(widest.best.empty());
    double const best = widest.best.front().step_ms;
    for (std::string const& demand : narrower) {
      PlanRequest narrow = r;
      fix_axis(narrow.axes, demand);
      PlanResult const answer = plan(narrow, model);
      if (answer.best.empty()) continue;
      EXPECT_GE(answer.best.front().step_ms, best * (1 - 1e-9)) << s.model << ' ' << s.devices << ' ' << demand;
    }
  }
}

}  // namespace
}  // namespace shardbench::test
