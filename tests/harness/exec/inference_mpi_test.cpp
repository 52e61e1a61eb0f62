// Sharded prefill and decode give the logits and tokens of the unsharded ones.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "harness/exec/parity.hpp"
#include "harness/program/analysis/count.hpp"
#include "harness/program/passes/lower.hpp"
#include "tests/harness/exec/moe_models.hpp"
#include "tests/harness/exec/world.hpp"

namespace shardbench::test {
namespace {

Experiment inference(ModelConfig const& model, Cut const& p, PhaseKind phase, std::int64_t seq = 8) {
  Experiment e;
  e.model_name = model.name;
  e.model = model;
  e.cut = p;
  e.phase = phase;
  e.seq = seq;
  e.micro_batch = 2;
  e.global_batch = 4 * p.dp;
  e.device = DeviceKind::cpu;
  resolve(e);
  return e;
}

void expect_parity(Experiment const& e) {
  SCOPED_TRACE(fmt::format("{}: {}", e.model.name, command_flags(e)));
  auto const device = make_host_device();
  Runner runner(lower(e, world().rank()), *device, world());
  ParityReport const report = check_inference(runner, e, *device, world());
  EXPECT_EQ(report.problem, "");
  EXPECT_LT(report.max_rel_error, report.tolerance) << report.worst;
}

constexpr PhaseKind phases[] = {PhaseKind::prefill, PhaseKind::decode};

TEST(InferenceParity, EveryProductOfDataTensorAndPipelineParallelism) {
  for (Cut const& p : all_products(world().size()))
    for (PhaseKind const phase : phases)
      for (bool const llama : {false, true}) {
        std::int64_t const layers = std::max<std::int64_t>(p.pp, 2);
        expect_parity(inference(llama ? small_llama(layers) : small_gpt(layers), p, phase));
      }
}

TEST(InferenceParity, Families) {
  for (auto const make : {small_qwen3, small_gemma2, small_neox, small_falcon, small_latent})
    for (PhaseKind const phase : phases) {
      Cut p = cut(1, world().size() / 2, 2);
      p.sequence_parallel = phase == PhaseKind::prefill && p.tp > 1;
      expect_parity(inference(make(2), p, phase));
      Experiment e = inference(make(2), cut(1, world().size(), 1), phase);
      e.precision = Dtype::bf16;
      expect_parity(e);
    }
}

std::int64_t cache_elements(StepProgram const& p) {
  std::int64_t elements = 0;
  for (Tensor const& t : p.tensors)
    if (t.role == TensorRole::kv_cache) elements += t.elements();
  return elements;
}

// A prompt cut over context ranks: each caches its own tokens, and all choose by the last one.
TEST(InferenceParity, ContextParallelPrefill) {
  std::int64_t const n = world().size();
  for (CpMethod const method : {CpMethod::ring, CpMethod::all_gather, CpMethod::ulysses})
    for (auto const make : {small_gpt, small_gemma2, small_gemma3, small_latent}) {
      ModelConfig model = make(3);
      if (method == CpMethod::ulysses) model.kv_heads = model.heads;
      Cut p;
      p.cp_method = method, p.cp = n;
      Experiment const e = inference(model, p, PhaseKind::prefill, 16);
      expect_parity(e);
      std::int64_t const cut = cache_elements(lower(e, world().rank())) * n,
                         whole = cache_elements(lower(unsharded(e), 0));
      // Uncut, layers with a window keep what it reaches only; context ranks keep all of their tokens.
      if (model.sliding_window > 0)
        EXPECT_GE(cut, whole);
      else
        EXPECT_EQ(cut, whole);
      if (n < 4) continue;
      p.cp = 2, p.tp = 2, p.pp = n / 4;
      p.sequence_parallel = method != CpMethod::all_gather;
      expect_parity(inference(model, p, PhaseKind::prefill, 16));
    }
}

TEST(InferenceParity, Experts) {
  std::int64_t const n = world().size();
  for (PhaseKind const phase : phases) {
    Cut p = expert_cut(n, 1, 1, n);
    expect_parity(inference(small_mixtral(2), p, phase));
    if (phase == PhaseKind::decode) continue;
    p = cut(1, 1, 1);
    p.cp = n, p.ep = n;
    expect_parity(inference(small_mixtral(2), p, phase, 16));
  }
}

TEST(InferencePayload, CommunicatorsCountWhatTheProgramSays) {
  for (Cut const& p : all_products(world().size()))
    for (PhaseKind const phase : phases) {
      Experiment const e = inference(small_llama(std::max<std::int64_t>(p.pp, 2)), p, phase);
      SCOPED_TRACE(command_flags(e));
      auto const device = make_host_device();
      Runner runner(lower(e, world().rank()), *device, world());
      StepCount const counted = count_step(runner.program(), Replay(runner.program()));
      runner.initialize(1);
      runner.run_gradients();
      runner.synchronize();
      auto const moved = runner.traffic();
      for (std::size_t a = 0; a < axis_count; ++a)
        EXPECT_EQ(static_cast<double>(moved[a].payload_bytes), counted.traffic[a].payload_bytes)
            << to_string(static_cast<Axis>(a));
      EXPECT_EQ(counted.traffic[Axis::dp].calls, 0);
    }
}

}  // namespace
}  // namespace shardbench::test
