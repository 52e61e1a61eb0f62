// A step with experts has the loss, gradients and weights of the unsharded one, whatever the cut of the two meshes.
// Learned routing depends on logits that differ in their last bits from cut to cut: in fp32 the nearest pair of scores
// around the choice is far wider apart than that for these seeds (a flip would show as an error near one).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "harness/program/analysis/count.hpp"
#include "tests/harness/exec/expect_parity.hpp"
#include "tests/harness/exec/moe_models.hpp"

namespace shardbench::test {
namespace {

Experiment learned(ModelConfig const& model, Cut const& p) {
  Experiment e = small_experiment(model, p);
  e.routing = RoutingKind::learned;
  return e;
}

/// (dp, tp, pp, ep, etp) of this many ranks: ep within dp, across tp, and the experts cut.
std::vector<Cut> expert_cuts() {
  switch (world().size()) {
    case 2:
      return {expert_cut(2, 1, 1, 2), expert_cut(1, 2, 1, 2), expert_cut(2, 1, 1, 1, 2), expert_cut(1, 1, 2, 1)};
    case 4:
      return {expert_cut(4, 1, 1, 4), expert_cut(4, 1, 1, 2), expert_cut(2, 2, 1, 4), expert_cut(1, 2, 2, 2),
              expert_cut(4, 1, 1, 2, 2)};
    default:
      return {expert_cut(8, 1, 1, 8), expert_cut(4, 2, 1, 4, 2), expert_cut(2, 2, 2, 4)};
  }
}

TEST(MoeParity, EveryFamilyOnEveryCut) {
  for (Cut const& p : expert_cuts())
    for (ModelConfig const& model : small_moe_models()) expect_equal_steps(learned(model, p), 1);
}

TEST(MoeParity, PrescribedRoutingBalancedAndSkewed) {
  for (Cut const& p : expert_cuts()) {
    Experiment e = small_experiment(small_qwen15_moe(), p);
    expect_equal_steps(e, 1);
    e.router_skew = 3;
    expect_equal_steps(e, 1);
    e.precision = Dtype::bf16;
    expect_equal_steps(e, 1);
  }
}

TEST(MoeParity, SequenceParallelAndRecompute) {
  for (Cut p : expert_cuts()) {
    p.sequence_parallel = p.tp > 1;
    p.recompute = Recompute::full;
    expect_equal_steps(learned(small_deepseek_moe(), p), 1);
    p.recompute = Recompute::selective;
    if (p.sequence_parallel) expect_equal_steps(learned(small_qwen15_moe(), p), 1);
  }
}

TEST(MoeParity, ShardedOptimizerOverBothMeshes) {
  for (Cut p : expert_cuts()) {
    p.zero_stage = 1;
    if (p.dp > 1) expect_equal_steps(learned(small_mixtral(), p), 1);
  }
}

TEST(MoeParity, TokensBeyondTheCapacityAreDroppedAlike) {
  for (Cut const& p : expert_cuts()) {
    Experiment e = learned(small_mixtral(), p);
    e.capacity = 1;
    expect_equal_steps(e, 1);
  }
}

// The context axis cuts a microbatch into pieces that alternate; which tokens go is as on one rank.
TEST(MoeParity, TokensBeyondTheCapacityAreDroppedAlikeInCutSequences) {
  std::int64_t const n = world().size();
  for (CpMethod const method : {CpMethod::ring, CpMethod::ulysses})
    for (std::int64_t const tp : {1, 2}) {
      if (tp == 2 && n < 4) continue;
      Cut p = expert_cut(1, tp, 1, 2);
      p.cp = n / tp, p.cp_method = method;
      p.sequence_parallel = tp > 1 && method == CpMethod::ring;
      ModelConfig model = small_mixtral(1);
      if (method == CpMethod::ulysses) model.kv_heads = model.heads;
      Experiment e = learned(model, p);
      e.micro_batch = 2, e.seq = 32;
      e.capacity = 1;
      expect_equal_steps(e, 1);
    }
}

TEST(MoeParity, OtherSchedules) {
  if (world().size() < 4) return;
  for (ScheduleKind const schedule : {ScheduleKind::interleaved, ScheduleKind::zb_h1, ScheduleKind::dualpipe}) {
    Experiment e = learned(small_mixtral(4), expert_cut(world().size() / 2, 1, 2, 2));
    e.cut.schedule = schedule;
    if (schedule == ScheduleKind::interleaved) e.cut.vpp = 2;
    e.global_batch = 4 * world().size();
    resolve(e);
    expect_equal_steps(e, 1);
  }
}

TEST(MoePayload, IsTheRoutingThatOccurred) {
  for (Cut const& p : expert_cuts())
    for (double const skew : {0.0, 2.5}) {
      Experiment e = small_experiment(small_mixtral(), p);
      e.router_skew = skew;
      auto const device = make_host_device();
      Runner runner(lower(e, world().rank()), *device, world());
      StepCount const counted = count_step(runner.program(), Replay(runner.program()));
      runner.initialize(1);
      runner.run_gradients();
      runner.synchronize();
      double const ours = static_cast<double>(runner.traffic()[Axis::ep].payload_bytes);
      double const expected = counted.traffic[Axis::ep].payload_bytes;
      // What comes back depends on who sent; over all ranks it is what was sent.
      auto const stream = device->make_stream(StreamKind::compute);
      double sums[2] = {ours, expected};
      world().all_reduce({sums, 2, Dtype::f64}, ReduceOp::sum, *stream);
      EXPECT_NEAR(sums[0], sums[1], 1e-9 * sums[1]) << command_flags(e);
      EXPECT_EQ(p.ep * p.etp > 1, ours > 0);
    }
}

}  // namespace
}  // namespace shardbench::test
