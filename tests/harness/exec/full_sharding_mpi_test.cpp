// Weights cut over data ranks (ZeRO 3) under every schedule, kept whole between microbatches or not, with experts and
// with weights that two chunks share: the loss, gradients and weights of the unsharded step.
#include <algorithm>

#include "tests/harness/exec/expect_parity.hpp"
#include "tests/harness/exec/moe_models.hpp"

namespace shardbench::test {
namespace {

std::int64_t ranks() { return world().size(); }

std::vector<ScheduleKind> const pipelines{ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved,
                                          ScheduleKind::zb_h1, ScheduleKind::zb_v,        ScheduleKind::dualpipe};

Cut with_schedule(Cut p, ScheduleKind schedule) {
  p.schedule = schedule;
  if (schedule == ScheduleKind::interleaved) p.vpp = 2;
  return p;
}

Experiment sharded(ModelConfig const& model, Cut p, ZeroKeep keep = ZeroKeep::none) {
  p.zero_stage = 3;
  p.zero_keep = keep;
  Experiment e = small_experiment(model, p);
  e.global_batch = 4 * p.dp * std::max<std::int64_t>(1, p.pp / 2);
  return e;
}

TEST(FullSharding, EverySchedule) {
  if (ranks() < 4) return;
  for (ScheduleKind const schedule : pipelines)
    for (ZeroKeep const keep : {ZeroKeep::none, ZeroKeep::weights, ZeroKeep::all}) {
      if (ranks() == 8 && keep == ZeroKeep::weights) continue;
      expect_parity(sharded(small_llama(4), with_schedule(cut(2, ranks() / 4, 2), schedule), keep));
    }
  if (ranks() == 8) expect_parity(sharded(small_llama(9), with_schedule(cut(2, 1, 4), ScheduleKind::zb_v)));
}

TEST(FullSharding, KeptBetweenMicrobatches) {
  for (ZeroKeep const keep : {ZeroKeep::weights, ZeroKeep::all}) {
    expect_parity(sharded(small_llama(2), cut(ranks(), 1, 1), keep));
    Cut p = cut(ranks(), 1, 1);
    p.shard_ranks = ranks() / 2;
    p.recompute = Recompute::full;
    expect_parity(sharded(small_llama(2), p, keep));
  }
}

TEST(FullSharding, RecomputeClippingDropoutAndBfloat16UnderAPipeline) {
  if (ranks() != 4) return;
  for (ScheduleKind const schedule : {ScheduleKind::one_f_one_b, ScheduleKind::zb_h1}) {
    Cut p = with_schedule(cut(2, 1, 2), schedule);
    p.recompute = Recompute::full;
    Experiment e = sharded(small_gpt(4), p);
    e.clip_grad = 0.1;
    e.dropout = 0.1;
    expect_parity(e);
    e.precision = Dtype::bf16;
    expect_parity(e, 1);
  }
}

// The embedding's weight is the head's too: in two chunks of a rank, in two stages, or in both.
TEST(TiedEmbeddings, EveryScheduleAndZeroStage) {
  for (int const stage : {0, 1, 2, 3})
    for (ScheduleKind const schedule : pipelines) {
      if (ranks() == 2 && stage > 0) continue;
      if (ranks() == 8 && stage % 2 == 0) continue;
      Cut p = with_schedule(cut(ranks() / 2, 1, 2), schedule);
      if (ranks() == 8) p.dp = p.tp = 2;
      Experiment e = sharded(small_gpt(4), p);
      e.cut.zero_stage = stage;
      e.clip_grad = stage == 1 ? 0.1 : 0;
      expect_parity(e);
    }
  for (ZeroKeep const keep : {ZeroKeep::none, ZeroKeep::all})
    expect_parity(sharded(small_gpt(2), cut(ranks(), 1, 1), keep));
}

Experiment with_experts(ModelConfig const& model, Cut const& p) {
  Experiment e = sharded(model, p);
  e.routing = RoutingKind::learned;
  return e;
}

TEST(FullSharding, Experts) {
  std::int64_t const n = ranks();
  std::vector<Cut> cuts{expert_cut(n, 1, 1, n), expert_cut(n, 1, 1, n / 2), expert_cut(1, n, 1, 1),
                        expert_cut(n / 2, 2, 1, 2)};
  if (n > 2) cuts.push_back(expert_cut(n / 2, 1, 2, n / 2)), cuts.push_back(expert_cut(n / 2, 1, 2, 1));
  for (Cut const& p : cuts)
    for (ModelConfig const& model : {small_deepseek_moe(4), small_qwen15_moe(4)})
      expect_equal_steps(with_experts(model, p), 1);
}

TEST(HybridSharding, Experts) {
  if (ranks() < 4) return;
  for (int const stage : {1, 3})
    for (std::int64_t const ep : {1, 2}) {
      Cut p = expert_cut(ranks(), 1, 1, ep);
      p.shard_ranks = ranks() / 2;
      Experiment e = with_experts(small_mixtral(), p);
      e.cut.zero_stage = stage;
      e.clip_grad = 0.1;
      expect_equal_steps(e, 2);
    }
}

}  // namespace
}  // namespace shardbench::test
