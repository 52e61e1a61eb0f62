// What a step takes of a GPU is what its plan says: the arena, and what the stream and the kernels keep beside it.
#include "harness/exec/device_memory.hpp"
#include "tests/harness/exec/moe_models.hpp"
#include "tests/harness/exec_cuda/emulated_job.hpp"

namespace shardbench::test {
namespace {

void expect_planned_bytes(Experiment const& e) {
  SCOPED_TRACE(command_flags(e));
  EmulatedJob const job;
  StepProgram program = lower(e, world().rank());
  double const beside = bytes_beside_arena(program, job.device()), before = job.device().info().free_memory_bytes;
  EXPECT_GT(beside, 0);
  Runner runner(std::move(program), job.device(), *job.nccl);
  runner.initialize(1);
  for (int step = 1; step <= 2; ++step) {
    runner.run_gradients();
    runner.run_optimizer(step);
    runner.synchronize();
    EXPECT_EQ(before - job.device().info().free_memory_bytes,
              static_cast<double>(runner.stage().memory().arena_bytes) + beside);
  }
}

TEST(EmulatedMemory, WhatIsTakenIsWhatIsPlanned) {
  if (tested_device == DeviceKind::cuda) GTEST_SKIP() << "NCCL's buffers are in the difference";
  std::int64_t const n = world().size();
  expect_planned_bytes(emulated_experiment(small_gpt(2), cut(1, n, 1)));
  for (int const stage : {0, 3}) {
    Cut p = cut(n, 1, 1);
    p.zero_stage = stage;
    Experiment e = emulated_experiment(small_llama(2), p);
    e.precision = stage ? Dtype::bf16 : Dtype::f32;
    expect_planned_bytes(e);
  }
  expect_planned_bytes(emulated_experiment(small_llama(n), cut(1, 1, n)));
  expect_planned_bytes(emulated_experiment(small_mixtral(1), expert_cut(n, 1, 1, n)));
}

}  // namespace
}  // namespace shardbench::test
