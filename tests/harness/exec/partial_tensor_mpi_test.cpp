// Partially synchronised tensor parallelism against its unsharded reference, which holds every rank's residual stream.
#include "tests/harness/exec/expect_parity.hpp"

namespace shardbench::test {
namespace {

Cut partial(Cut p, double fraction) {
  p.tp_sync_fraction = fraction;
  return p;
}

TEST(PartialTensorParallel, EqualsItsStreamsOnOneRank) {
  std::int64_t const n = world().size();
  for (double const fraction : {0.75, 0.5, 0.25, 0.0}) {
    expect_parity(small_experiment(small_llama(2), partial(cut(1, n, 1), fraction)));
    if (fraction == 0.5 || n == 2) expect_parity(small_experiment(small_gpt(2), partial(cut(1, n, 1), fraction)));
  }
}

TEST(PartialTensorParallel, WithOtherAxesAndStates) {
  std::int64_t const n = world().size();
  if (n < 4) GTEST_SKIP() << "4 ranks needed";
  for (Cut p : {cut(n / 2, 2, 1), cut(1, 2, n / 2), cut(n / 4, 2, 2)}) {
    ModelConfig const gpt = small_gpt(std::max<std::int64_t>(p.pp, 2)),
                      llama = small_llama(std::max<std::int64_t>(p.pp, 2));
    p = partial(p, 0.25);
    expect_parity(small_experiment(gpt, p));
    p.recompute = Recompute::full;
    p.zero_stage = p.dp > 1 ? 1 : 0;
    expect_parity(small_experiment(llama, p));
    if (p.dp > 1 && p.pp == 1) {
      p.recompute = Recompute::none, p.zero_stage = 3;
      expect_parity(small_experiment(llama, p));
    }
    if (p.pp > 1) {
      p = partial(cut(p.dp, p.tp, p.pp, ScheduleKind::zb_h1), 0.5);
      expect_parity(small_experiment(llama, p));
    }
  }
}

TEST(PartialTensorParallel, BlocksOnlyAndBfloat16AndSeveralSamples) {
  std::int64_t const n = world().size();
  Experiment e = small_experiment(small_llama(2), partial(cut(1, n, 1), 0.5));
  e.scope = Scope::layer;
  expect_parity(e);
  e.scope = Scope::model;
  e.micro_batch = 2;
  expect_parity(e);
  e.precision = Dtype::bf16;
  expect_parity(e);
}

TEST(PartialTensorParallel, AllChannelsIsTheSameProgramAsFullTensorParallelism) {
  // A fraction of 1 asks for nothing else than tp; as private channels with all of them synchronised, the numbers
  // agree.
  std::int64_t const n = world().size();
  Experiment const full = small_experiment(small_gpt(2), cut(1, n, 1));
  EXPECT_EQ(full.cut.tp_sync_fraction, 1);
  StepProgram const a = lower(full, world().rank()),
                    b = lower(small_experiment(small_gpt(2), partial(cut(1, n, 1), 1)), world().rank());
  ASSERT_EQ(a.segments.size(), b.segments.size());
  for (std::size_t s = 0; s < a.segments.size(); ++s) EXPECT_EQ(a.segments[s].ops.size(), b.segments[s].ops.size());
}

TEST(PartialTensorParallel, CommunicatorsCountWhatTheProgramSays) {
  Experiment const e = small_experiment(small_llama(2), partial(cut(1, world().size(), 1), 0.25));
  auto const device = make_host_device();
  Runner runner(lower(e, world().rank()), *device, world());
  StepCount const counted = count_step(runner.program(), Replay(runner.program()));
  runner.initialize(1);
  runner.run_gradients();
  runner.run_optimizer(1);
  runner.synchronize();
  EXPECT_EQ(static_cast<double>(runner.traffic()[0].payload_bytes), counted.traffic[0].payload_bytes);
}

}  // namespace
}  // namespace shardbench::test
