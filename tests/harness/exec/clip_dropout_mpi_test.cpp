// The global gradient norm and dropout do not depend on how a step is cut.
#include "tests/harness/exec/expect_parity.hpp"

namespace shardbench::test {
namespace {

/// Norm of the unsharded gradients, in double.
double reference_norm(Experiment const& e) {
  Experiment const whole = unsharded(e);
  auto const device = make_host_device();
  auto const self = make_self_communicator();
  Runner runner(lower(whole, 0), *device, *self);
  runner.initialize(e.seed);
  runner.run_gradients();
  runner.synchronize();
  double sum = 0;
  for (Parameter const& p : runner.program().parameters)
    if (!p.copy)
      for (float const g : runner.read(p.gradient)) sum += static_cast<double>(g) * static_cast<double>(g);
  return std::sqrt(sum);
}

void expect_norm(Experiment const& e, double expected) {
  SCOPED_TRACE(name_of(e));
  auto const device = make_host_device();
  Runner runner(lower(e, world().rank()), *device, world());
  runner.initialize(e.seed);
  runner.run_gradients();
  runner.run_optimizer(1);
  runner.synchronize();
  double const norm = std::sqrt(static_cast<double>(runner.read(runner.program().clip.squares).front()));
  // Gradients themselves differ by rounding.
  EXPECT_NEAR(norm, expected, 1e-6 * expected);
  EXPECT_NEAR(runner.read(runner.program().clip.factor).front(), std::min(1.0, e.clip_grad / norm), 1e-5);
}

std::vector<Cut> cuts_with_everything() {
  std::int64_t const n = world().size();
  std::vector<Cut> cuts = all_products(n);
  for (int stage = 1; stage <= 3; ++stage)
    for (Cut p : {cut(n, 1, 1), cut(n / 2, 2, 1)}) {
      p.zero_stage = p.dp > 1 ? stage : 0;
      p.sequence_parallel = p.tp > 1 && stage == 2;
      cuts.push_back(p);
    }
  if (n < 8) cuts.push_back(cut(n / 2, 1, 2, ScheduleKind::dualpipe));
  cuts.push_back(cut(1, n / 2, 2, ScheduleKind::zb_v));
  return cuts;
}

// Case N03: replicated parameters count once, sharded ones all, whatever tp and pp.
TEST(ClipGrad, N03TheNormIsTheSameOnEveryCut) {
  for (bool const llama : {true, false}) {
    ModelConfig model = llama ? small_llama(8) : small_gpt(8);
    double expected = 0;
    for (Cut const& p : cuts_with_everything()) {
      Experiment e = small_experiment(model, p);
      e.clip_grad = 0.5;
      if (expected == 0) expected = reference_norm(e);
      expect_norm(e, expected);
    }
  }
}

// Case N03's numbers: squares of cut gradients that sum to 8 over all ranks and 20 of one that each rank holds make 28,
// not 8 + 2 * 20 = 48.
TEST(ClipGrad, N03ReplicatedGradientsCountOnce) {
  std::int64_t const n = world().size();
  if (n > 4) return;  // than two stages for two layers
  Experiment e = small_experiment(small_llama(2), cut(1, 2, n / 2));
  e.clip_grad = 1;
  auto const device = make_host_device();
  Runner runner(lower(e, world().rank()), *device, world());
  runner.initialize(e.seed);
  StepProgram const& p = runner.program();
  for (Parameter const& parameter : p.parameters) {
    std::vector<float> gradient(static_cast<std::size_t>(parameter.elements()), 0);
    if (parameter.name == "layers.0.attention.qkv.weight") gradient[1] = 2;            // 4 on each of two
    if (parameter.name == "layers.1.norm1.weight") gradient[0] = 2, gradient[1] = -4;  // 4 + 16
    runner.write(parameter.gradient, gradient);
  }
  runner.run_optimizer(1);
  runner.synchronize();
  EXPECT_EQ(runner.read(p.clip.squares).front(), 28);
}

TEST(ClipGrad, WeightsAreThoseOfTheUnshardedStep) {
  std::int64_t const n = world().size();
  for (double const clip : {0.01, 1e6}) {
    Experiment e = small_experiment(small_gpt(2), cut(n / 2, 2, 1));
    e.clip_grad = clip;
    expect_parity(e);
    e = small_experiment(small_llama(2), cut(n / 2, 1, 2));
    e.cut.zero_stage = n > 2 ? 1 : 0;
    e.precision = Dtype::bf16;
    e.clip_grad = clip;
    expect_parity(e);
  }
}

TEST(Dropout, TheSameElementsGoOnEveryCut) {
  for (Cut p : all_products(world().size()))
    for (bool const more : {false, true}) {
      if (world().size() == 8 && std::max({p.dp, p.tp, p.pp}) == 4) continue;
      p.sequence_parallel = more && p.tp > 1;
      p.recompute = more ? Recompute::full : Recompute::none;
      p.zero_stage = more && p.dp > 1 && p.pp == 1 ? 3 : 0;
      std::int64_t const layers = std::max<std::int64_t>(p.pp, 2);
      Experiment e = small_experiment(more ? small_llama(layers) : small_gpt(layers), p);
      e.dropout = 0.1;
      e.micro_batch = world().size() < 8 ? 2 : 1;
      expect_parity(e);
    }
}

TEST(Dropout, StreamsOfOneTokenDropTheSameElements) {
  Cut p = cut(1, world().size(), 1);
  p.tp_sync_fraction = 0.5;
  Experiment e = small_experiment(small_gpt(2), p);
  e.dropout = 0.2;
  e.micro_batch = 2;
  expect_parity(e);
}

}  // namespace
}  // namespace shardbench::test
