#include "harness/simulate/simulate.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "harness/program/analysis/count.hpp"
#include "harness/program/analysis/hazards.hpp"
#include "harness/program/passes/lower.hpp"
#include "tests/harness/exec/small_models.hpp"

namespace shardbench {
namespace {

/// Fixed times by kind of op.
class Fixed final : public DurationModel {
 public:
  Fixed(double compute, double collective, double transfer)
      : compute_(compute), collective_(collective), transfer_(transfer) {}
  double compute_ms(StepProgram const&, Op const&, bool) const final { return compute_; }
  double collective_ms(StepProgram const&, Op const&) const final { return collective_; }
  double transfer_ms(StepProgram const&, Op const&) const final { return transfer_; }

 private:
  double compute_, collective_, transfer_;
};

std::vector<StepProgram> programs_of(Experiment const& e) {
  std::vector<StepProgram> programs;
  for (auto const rank : representative_ranks(e)) programs.push_back(lower(e, rank));
  return programs;
}

std::int64_t ops_of(StepProgram const& p, bool compute) {
  Replay const replay(p);
  std::int64_t n = 0;
  for (Run const& run : replay.runs())
    if (run.segment)
      for (Op const& op : run.segment->ops) n += run.runs(op) && (op.stream == StreamId::compute) == compute ? 1 : 0;
  return n;
}

TEST(Simulate, OneRankComputesOpAfterOp) {
  Experiment const e = test::small_experiment(test::small_gpt(2), test::cut(1, 1, 1));
  auto const programs = programs_of(e);
  auto const r = simulate(programs, Fixed(2, 0, 0));
  EXPECT_DOUBLE_EQ(r.step_ms, 2.0 * static_cast<double>(ops_of(programs[0], true)));
  EXPECT_DOUBLE_EQ(r.stages[0].breakdown.compute_ms, r.step_ms);
  EXPECT_EQ(r.stages[0].breakdown.idle_ms, 0);
}

TEST(Simulate, TensorParallelCollectivesAreMostlyExposed) {
  // An all-reduce of a block feeds the next op; backwards only weight gradients can run beside it.
  Experiment e = test::small_experiment(test::small_gpt(2), test::cut(1, 2, 1));
  e.scope = Scope::layer;
  auto const programs = programs_of(e);
  auto const r = simulate(programs, Fixed(1, 5, 0));
  auto const compute = static_cast<double>(ops_of(programs[0], true)),
             comm = static_cast<double>(ops_of(programs[0], false));
  EXPECT_DOUBLE_EQ(r.stages[0].compute_ms, compute);
  EXPECT_DOUBLE_EQ(r.stages[0].breakdown.comm_ms, 5 * comm);
  EXPECT_LE(r.step_ms, compute + 5 * comm);
  EXPECT_GT(r.stages[0].breakdown.exposed_comm_ms, 0.5 * 5 * comm);
}

/// Times in proportion to the work: products by FLOPs, collectives by bytes.
class Proportional final : public DurationModel {
 public:
  double compute_ms(StepProgram const&, Op const& op, bool) const final {
    auto const* s = std::get_if<GemmShape>(&op.shape);
    return s ? 1e-5 * static_cast<double>(s->m * s->n * s->k) : 0;
  }
  double collective_ms(StepProgram const& p, Op const& op) const final { return 1e-4 * collective_payload(p, op); }
  double transfer_ms(StepProgram const&, Op const&) const final { return 0; }
};

TEST(Simulate, PiecesOfTensorParallelCollectivesHideBehindProducts) {
  for (bool const sp : {false, true}) {
    double exposed[2], comm[2];
    for (int pieces = 0; pieces < 2; ++pieces) {
      Cut p = test::cut(1, 2, 1);
      p.sequence_parallel = sp;
      if (pieces) p.tp_overlap = TpOverlap::chunked;
      Experiment e = test::small_experiment(test::small_gpt(2), p);
      e.scope = Scope::layer;
      auto const r = simulate(programs_of(e), Proportional());
      exposed[pieces] = r.stages[0].breakdown.exposed_comm_ms;
      comm[pieces] = r.stages[0].breakdown.comm_ms;
    }
    EXPECT_NEAR(comm[0], comm[1], 1e-9 * comm[0]) << "the same bytes";
    EXPECT_LT(exposed[1], 0.6 * exposed[0]) << (sp ? "sequence parallel" : "all-reduce");
  }
}

TEST(Simulate, GradientBucketsHideBehindTheBackwardPass) {
  Experiment e = test::small_experiment(test::small_gpt(8), test::cut(2, 1, 1));
  e.bucket_mb = 0.1;
  auto const programs = programs_of(e);
  auto const r = simulate(programs, Fixed(1, 4, 0));
  Breakdown const& b = r.stages[0].breakdown;
  EXPECT_GT(b.comm_axis_ms[static_cast<int>(Lane::dp)], 4);
  EXPECT_LT(b.exposed_comm_ms, b.comm_ms);
  EXPECT_DOUBLE_EQ(b.step_ms, r.step_ms);
}

/// Collectives of a phase beside which nothing is computed for some of their time, and how many there are.
std::pair<std::int64_t, std::int64_t> alone_and_all(StepProgram const& p, StageTimeline const& line, OpKind kind,
                                                    std::string const& phase) {
  std::int64_t alone = 0, all = 0;
  for (Span const& s : line.spans) {
    if (s.lane != Lane::dp || s.label >= p.labels.size()) continue;
    OpLabel const& label = p.labels[s.label];
    if (label.kind != kind || label.phase != phase) continue;
    double beside = 0;
    for (Span const& c : line.spans)
      if (c.lane == Lane::compute)
        beside += std::max(0.0, std::min(c.end_ms, s.end_ms) - std::max(c.start_ms, s.start_ms));
    alone += beside < s.end_ms - s.start_ms - 1e-9 ? 1 : 0, ++all;
  }
  return {alone, all};
}

// ZeRO 3: while a unit's gradients are cut and summed, the next unit computes; of a step the last cut alone has nothing
// beside it. Hybrid sharding has a second sum, once a step and unit.
TEST(Simulate, FullyShardedGradientsAreCutBesideTheNextPass) {
  constexpr std::int64_t layers = 6, microbatches = 3;
  for (std::int64_t const shard_ranks : {0, 2}) {
    Cut c = test::cut(4, 1, 1);
    c.zero_stage = 3, c.shard_ranks = shard_ranks;
    Experiment e = test::small_experiment(test::small_llama(layers), c);
    e.scope = Scope::layer;
    e.global_batch = 4 * e.micro_batch * microbatches;
    auto const programs = programs_of(e);
    auto const r = simulate(programs, Fixed(1, 2, 0));
    using Counts = std::pair<std::int64_t, std::int64_t>;
    EXPECT_EQ(alone_and_all(programs[0], r.stages[0], OpKind::reduce_scatter, "reduce"),
              (Counts{1, layers * microbatches}));
    auto const [alone, all] = alone_and_all(programs[0], r.stages[0], OpKind::all_reduce, "reduce");
    EXPECT_EQ(all, shard_ranks ? layers : 0);
    EXPECT_LE(alone, 2) << "a sum over replicas follows the addition, one pass later";
  }
}

// ZeRO 2 cuts what a microbatch made of the last bucket beside the next one's forward.
TEST(Simulate, CutGradientsOfAMicrobatchHideBehindTheNext) {
  Cut c = test::cut(4, 1, 1);
  c.zero_stage = 2;
  Experiment e = test::small_experiment(test::small_llama(4), c);
  e.scope = Scope::layer;
  e.global_batch = 4 * e.micro_batch * 3;
  for (double const bucket_mb : {0.05, 1e3}) {
    e.bucket_mb = bucket_mb;
    auto const programs = programs_of(e);
    auto const r = simulate(programs, Fixed(1, 2, 0));
    auto const [alone, all] = alone_and_all(programs[0], r.stages[0], OpKind::reduce_scatter, "backward");
    EXPECT_EQ(all % 3, 0);
    EXPECT_EQ(all == 3, bucket_mb > 1);
    EXPECT_EQ(alone, 1);
  }
}

TEST(Simulate, PartsMakeTheStepOnEveryStage) {
  for (auto const schedule :
       {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zb_h1, ScheduleKind::dualpipe}) {
    Experiment const e = test::small_experiment(test::small_llama(4), test::cut(1, 2, 2, schedule));
    auto const r = simulate(programs_of(e), Fixed(1, 0.5, 0.25));
    for (StageTimeline const& s : r.stages) {
      Breakdown const& b = s.breakdown;
      EXPECT_DOUBLE_EQ(b.step_ms, r.step_ms);
      EXPECT_NEAR(b.step_ms, b.compute_ms + b.exposed_comm_ms + b.idle_ms, 1e-9);
      EXPECT_LE(b.bubble_ms, b.idle_ms + 1e-9);
      for (std::size_t i = 0; i < s.spans.size(); ++i) {
        EXPECT_LE(s.spans[i].start_ms, s.spans[i].end_ms);
        EXPECT_LE(s.spans[i].end_ms, r.step_ms + 1e-9);
      }
      std::vector<Span> compute;
      std::copy_if(s.spans.begin(), s.spans.end(), std::back_inserter(compute),
                   [](Span const& x) { return x.lane == Lane::compute; });
      for (std::size_t i = 1; i < compute.size(); ++i) EXPECT_GE(compute[i].start_ms, compute[i - 1].end_ms);
    }
    auto const again = simulate(programs_of(e), Fixed(1, 0.5, 0.25));
    EXPECT_EQ(again.step_ms, r.step_ms);
    EXPECT_EQ(again.op_events, r.op_events);
    auto const quiet = simulate(programs_of(e), Fixed(1, 0.5, 0.25), {.record_spans = false});
    EXPECT_EQ(quiet.step_ms, r.step_ms);
    EXPECT_TRUE(quiet.stages[0].spans.empty());
    // The breakdown without the spans is that of the spans.
    auto const parts = simulate(programs_of(e), Fixed(1, 0.5, 0.25), {.record_spans = false, .break_down = true});
    for (std::size_t stage = 0; stage < r.stages.size(); ++stage) {
      Breakdown const &whole = r.stages[stage].breakdown, &lean = parts.stages[stage].breakdown;
      EXPECT_TRUE(parts.stages[stage].spans.empty());
      EXPECT_NEAR(lean.compute_ms, whole.compute_ms, 1e-9);
      EXPECT_NEAR(lean.exposed_comm_ms, whole.exposed_comm_ms, 1e-9);
      EXPECT_NEAR(lean.bubble_ms, whole.bubble_ms, 1e-9);
      for (Lane const lane : enum_values<Lane>())
        EXPECT_NEAR(lean.exposed_axis_ms[lane], whole.exposed_axis_ms[lane], 1e-9) << to_string(lane);
    }
  }
}

TEST(Simulate, TransfersDelayThePipeline) {
  auto const s = make_schedule(ScheduleKind::one_f_one_b, 4, 1, 1);
  // One microbatch goes down and back up: three hops each way.
  EXPECT_NEAR(summarize_schedule(s, {1, 1, 1, 0.5}).step, 4 * 3 + 6 * 0.5, 1e-9);
}

TEST(Simulate, IndependentOpsMayChangePlaces) {
  Experiment const e = test::small_experiment(test::small_gpt(2), test::cut(1, 2, 1));
  auto programs = programs_of(e);
  double const step = simulate(programs, Fixed(1, 0.5, 0)).step_ms;
  for (Segment& segment : programs[0].segments) {
    if (segment.kind != ActionKind::optimizer) continue;
    std::reverse(segment.ops.begin(), segment.ops.end());  // buckets are updated independently
  }
  EXPECT_DOUBLE_EQ(simulate(programs, Fixed(1, 0.5, 0)).step_ms, step);
}

// --- hazards ---

std::vector<std::pair<StreamId, std::int64_t>> waits(HazardTracker& t) {
  std::vector<std::pair<StreamId, std::int64_t>> out;
  t.finish([&](StreamId s, std::int64_t n) { out.emplace_back(s, n); });
  return out;
}
using Waits = std::vector<std::pair<StreamId, std::int64_t>>;

TEST(Hazards, ReadAfterWrite) {
  HazardTracker t(2);
  EXPECT_EQ(t.begin(StreamId::compute), 1);
  t.write(0);
  EXPECT_EQ(waits(t), Waits{});
  t.begin(StreamId::tp);
  t.read(0);
  EXPECT_EQ(waits(t), (Waits{{StreamId::compute, 1}}));
}

TEST(Hazards, WriteAfterReadAndWriteAfterWrite) {
  HazardTracker t(2);
  t.begin(StreamId::tp), t.write(0);
  EXPECT_EQ(waits(t), Waits{});
  t.begin(StreamId::dp), t.read(1);
  EXPECT_EQ(waits(t), Waits{});
  t.begin(StreamId::compute), t.write(0), t.write(1);
  EXPECT_EQ(waits(t), (Waits{{StreamId::tp, 1}, {StreamId::dp, 1}}));
}

TEST(Hazards, TheSameStreamNeverWaitsForItself) {
  HazardTracker t(1);
  t.begin(StreamId::tp), t.write(0), waits(t);
  t.begin(StreamId::tp), t.read(0);
  EXPECT_EQ(waits(t), Waits{});
  t.begin(StreamId::tp), t.write(0);
  EXPECT_EQ(waits(t), Waits{});
}

TEST(Hazards, WhatWasWaitedForIsNotWaitedForAgain) {
  HazardTracker t(2);
  t.begin(StreamId::compute), t.write(0), waits(t);
  t.begin(StreamId::compute), t.write(1), waits(t);
  t.begin(StreamId::tp), t.read(1);
  EXPECT_EQ(waits(t), (Waits{{StreamId::compute, 2}}));
  t.begin(StreamId::tp), t.read(0);
  EXPECT_EQ(waits(t), Waits{}) << "operation 1 ended before operation 2";
}

TEST(Hazards, TakenOverMemoryWaitsForAllCompute) {
  HazardTracker t(1);
  for (int i = 0; i < 3; ++i) t.begin(StreamId::compute), waits(t);
  t.begin(StreamId::tp), t.after_all(StreamId::compute);
  EXPECT_EQ(waits(t), (Waits{{StreamId::compute, 3}}));
}

}  // namespace
}  // namespace shardbench
