// Steps whose sequence is cut over ranks have the loss, gradients and weights of the unsharded one, by every method;
// and states cut over data and context ranks, over part of them, or over both with a pipeline.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/program/analysis/count.hpp"
#include "tests/harness/exec/expect_parity.hpp"
#include "tests/harness/exec/moe_models.hpp"

namespace shardbench::test {
namespace {

std::int64_t ranks() { return world().size(); }

/// Parity of two steps, and the communicators' payload equal to the program's.
void expect_parity_and_payload(Experiment const& e) {
  SCOPED_TRACE(fmt::format("{}: {}", e.model.name, command_flags(e)));
  auto const device = make_host_device();
  Runner runner(lower(e, world().rank()), *device, world());
  expect_equal_steps(runner, e);
  StepCount const counted = count_step(runner.program(), Replay(runner.program()));
  auto const before = runner.traffic();
  runner.run_gradients();
  runner.run_optimizer(9);
  runner.synchronize();
  auto const after = runner.traffic();
  for (std::size_t a = 0; a < axis_count; ++a)
    EXPECT_EQ(static_cast<double>(after[a].payload_bytes - before[a].payload_bytes), counted.traffic[a].payload_bytes)
        << to_string(static_cast<Axis>(a));
}

Cut context_cut(std::int64_t cp, CpMethod method = CpMethod::ring) {
  Cut p;
  p.cp = cp;
  p.cp_method = method;
  return p;
}

std::vector<CpMethod> const methods{CpMethod::ring, CpMethod::all_gather, CpMethod::ulysses};

ModelConfig model_for(CpMethod method, std::int64_t layers) {
  return small_llama(layers, 8, method == CpMethod::ulysses ? 8 : 2);
}

TEST(ContextParallel, EveryMethodAlone) {
  for (CpMethod const method : methods)
    for (bool const llama : {false, true})
      expect_parity_and_payload(
          small_experiment(llama ? model_for(method, 2) : small_gpt(2), context_cut(ranks(), method)));
}

TEST(ContextParallel, WithEveryOtherAxis) {
  if (ranks() < 4) return;
  for (CpMethod const method : methods) {
    for (int axis = 0; axis < 3; ++axis) {
      Cut p = context_cut(2, method);
      (axis == 0 ? p.tp : axis == 1 ? p.dp : p.pp) = ranks() / 2;
      p.sequence_parallel = axis == 0 && ranks() == 4;
      ModelConfig model = model_for(method, std::max<std::int64_t>(p.pp, 2));
      if (method == CpMethod::ulysses && ranks() == 8 && axis == 0)
        model.heads = model.kv_heads = 8, model.head_dim = 8;
      expect_parity_and_payload(small_experiment(model, p));
    }
    if (ranks() != 8) continue;
    Cut p = context_cut(2, method);
    p.tp = p.pp = 2;
    p.sequence_parallel = true;
    expect_parity_and_payload(small_experiment(small_gpt(4), p));
  }
}

TEST(ContextParallel, WindowsSamplesPrecisionRecomputeAndBlocksOnly) {
  for (CpMethod const method : methods) {
    Cut p = context_cut(2, method);
    p.dp = ranks() / 2;
    Experiment e = small_experiment(model_for(method, 2), p);
    e.model.sliding_window = 5;
    e.micro_batch = ranks() == 8 ? 1 : 2;
    expect_parity_and_payload(e);
    e.model.sliding_window = 0;
    e.precision = Dtype::bf16;
    expect_parity_and_payload(e);
    e.precision = Dtype::f32;
    e.scope = Scope::layer;
    e.cut.recompute = Recompute::full;
    expect_parity_and_payload(e);
    e.scope = Scope::model;
    e.cut.recompute = Recompute::selective;
    expect_parity_and_payload(e);
  }
}

// A window so short that ranks have keys pass through them that none of their queries sees.
TEST(ContextParallel, KeysThatNobodySeesArePassedOn) {
  Experiment e = small_experiment(small_llama(2), context_cut(ranks()));
  e.model.sliding_window = 2;
  expect_parity_and_payload(e);
}

TEST(ContextParallel, AttentionWithoutAMaskIsCutInOnePieceARank) {
  for (CpMethod const method : methods) {
    ModelConfig model = model_for(method, 1);
    model.causal = false;
    expect_parity_and_payload(small_experiment(model, context_cut(ranks(), method)));
  }
}

TEST(ContextParallel, LatentAttentionNormedHeadsDropoutAndOverlap) {
  for (CpMethod const method : methods) {
    Cut p = context_cut(2, method);
    p.tp = ranks() / 2;
    for (ModelConfig model : {small_latent(2), small_latent_lite(2), small_qwen3(2)}) {
      if (method == CpMethod::ulysses) model.kv_heads = model.heads;
      p.sequence_parallel = p.tp > 1 && model.qk_norm;
      Experiment e = small_experiment(model, p);
      e.dropout = model.qk_norm ? 0.1 : 0;
      expect_parity_and_payload(e);
      if (p.tp == 1 || !model.qk_norm) continue;
      e.cut.tp_overlap = TpOverlap::chunked;
      expect_parity_and_payload(e);
    }
  }
}

TEST(ContextParallel, ExpertsOverContextRanks) {
  for (int const stage : {0, 1}) {
    Cut p = context_cut(2);
    p.dp = ranks() / 2;
    p.ep = ranks() / 2;
    p.zero_stage = stage;
    Experiment const e = small_experiment(small_mixtral(), p);
    SCOPED_TRACE(command_flags(e));
    auto const device = make_host_device();
    Runner runner(lower(e, world().rank()), *device, world());
    expect_equal_steps(runner, e);
  }
}

TEST(ContextParallel, StatesAreCutOverDataAndContextRanks) {
  for (int const stage : {1, 2, 3}) {
    Cut p = context_cut(2);
    p.dp = ranks() / 2;
    p.zero_stage = stage;
    expect_parity_and_payload(small_experiment(small_llama(2), p));
  }
}

TEST(HybridSharding, ShardsOverSomeDataRanksAndCopiesOverTheOthers) {
  for (int const stage : {1, 2, 3})
    for (std::int64_t shards = 1; shards < ranks(); shards *= 2) {
      Cut p = cut(ranks(), 1, 1);
      p.zero_stage = stage;
      p.shard_ranks = shards;
      expect_parity_and_payload(small_experiment(small_llama(2), p));
      if (ranks() == 2) continue;
      p.dp = ranks() / 2;
      p.shard_ranks = std::min(shards, p.dp);
      p.tp = 2;
      expect_parity_and_payload(small_experiment(small_llama(2, 8, 1), p));
      p.tp = 1;
      p.cp = 2;
      expect_parity_and_payload(small_experiment(small_llama(2), p));
    }
}

}  // namespace
}  // namespace shardbench::test
