// Gradients kept and reduced in bf16: those of the unsharded step that keeps them so, to a few roundings.
#include <algorithm>

#include "harness/program/analysis/count.hpp"
#include "harness/program/analysis/memory_plan.hpp"
#include "kernels/core/error.hpp"
#include "tests/harness/exec/expect_parity.hpp"
#include "tests/harness/exec/moe_models.hpp"

namespace shardbench::test {
namespace {

Experiment narrow(ModelConfig const& model, Cut const& p) {
  Experiment e = small_experiment(model, p);
  e.precision = e.gradient_dtype = Dtype::bf16;
  return e;
}

TEST(GradientDtype, EveryProduct) {
  for (Cut const& p : all_products(world().size())) {
    if (world().size() == 8 && std::max({p.dp, p.tp, p.pp}) > 2) continue;
    std::int64_t const layers = std::max<std::int64_t>(p.pp, 2);
    expect_parity(narrow(small_gpt(layers), p));
    expect_parity(narrow(small_llama(layers, 8, 1), p));
  }
}

TEST(GradientDtype, ShardsSchedulesExpertsAndClipping) {
  std::int64_t const n = world().size();
  for (int const stage : {1, 3}) {
    Cut p = cut(n, 1, 1);
    p.zero_stage = stage;
    Experiment e = narrow(small_qwen3(2), p);
    e.clip_grad = 0.1;
    expect_parity(e);
  }
  for (ScheduleKind const schedule : {ScheduleKind::zb_h1, ScheduleKind::dualpipe}) {
    expect_parity(narrow(small_gpt(4), cut(std::min<std::int64_t>(n / 2, 2), n == 8 ? 2 : 1, 2, schedule)), 1);
  }
  expect_equal_steps(narrow(small_mixtral(), expert_cut(n, 1, 1, n)), 1);
}

TEST(GradientDtype, HalvesGradientsAndTheirTraffic) {
  Cut const p = cut(world().size(), 1, 1);
  Experiment e = narrow(small_llama(2), p);
  StepProgram const two = lower(e, 0);
  e.gradient_dtype = Dtype::f32;
  StepProgram const four = lower(e, 0);
  auto const dp = static_cast<std::size_t>(Axis::dp);
  EXPECT_EQ(2 * count_step(two, Replay(two)).traffic[dp].payload_bytes,
            count_step(four, Replay(four)).traffic[dp].payload_bytes);
  EXPECT_EQ(2 * plan_memory(two, Replay(two)).gradient_bytes, plan_memory(four, Replay(four)).gradient_bytes);
}

TEST(GradientDtype, NeedsWeightsOfTheSame) {
  Experiment e = small_experiment(small_llama(2), cut(world().size(), 1, 1));
  e.gradient_dtype = Dtype::bf16;
  EXPECT_THROW(lower(e, 0), IllegalConfig);
}

}  // namespace
}  // namespace shardbench::test
