// What fails inside a step on the GPU ends with its reason on every rank that it reaches, and never in a hang.
#include <chrono>

#include "kernels/core/error.hpp"
#include "tests/harness/exec_cuda/emulated_job.hpp"

namespace shardbench::test {
namespace {

using emulation::Fault;

constexpr double short_timeout = 0.5;

class Faults : public testing::Test {
 protected:
  void TearDown() override {
    for (Fault const fault : {Fault::allocation, Fault::launch, Fault::matmul, Fault::nccl_error, Fault::nccl_hang})
      emulation::inject_fault(fault, 0);
  }

  Experiment const e_ = emulated_experiment(small_gpt(1), cut(1, world().size(), 1), 2);
};

/// The reason why a step failed, or nothing.
std::string failure_of_step(Runner& runner) {
  try {
    runner.run_gradients();
    runner.run_optimizer(1);
    runner.synchronize();
  } catch (std::exception const& failure) {
    return failure.what();
  }
  return {};
}

bool contains(std::string const& text, char const* part) { return text.find(part) != std::string::npos; }

TEST_F(Faults, AnArenaThatDoesNotFitTellsTheBytes) {
  EmulatedJob const job;
  StepProgram const program = lower(e_, world().rank());
  double const arena = static_cast<double>(plan_memory(program, Replay(program)).arena_bytes);
  emulation::inject_fault(Fault::allocation, 1);
  try {
    Runner const runner(program, job.device(), *job.nccl);
    FAIL() << "an arena was made";
  } catch (OutOfMemory const& failure) {
    EXPECT_GE(failure.requested_bytes, arena);
    EXPECT_LT(failure.requested_bytes, arena + 4096);
    EXPECT_GT(failure.free_bytes, 0);
    EXPECT_EQ(failure.free_bytes, job.device().info().free_memory_bytes);
    EXPECT_TRUE(contains(failure.what(), "bytes asked for")) << failure.what();
  }
}

TEST_F(Faults, TheRanksGoOnAfterOneThatDidNotFit) {
  EmulatedJob const job;
  emulation::inject_fault(Fault::allocation, 1);
  EXPECT_THROW(Runner(lower(e_, world().rank()), job.device(), *job.nccl), OutOfMemory);
  expect_parity(job, e_, 1);
}

TEST_F(Faults, ALaunchThatFailsNamesItsReason) {
  EmulatedJob const job;
  Runner runner(lower(e_, world().rank()), job.device(), *job.nccl);
  runner.initialize(1);
  emulation::inject_fault(Fault::launch, 3);
  std::string const reason = failure_of_step(runner);
  EXPECT_TRUE(contains(reason, "cudaErrorLaunchFailure")) << reason;
}

TEST_F(Faults, AProductThatFailsNamesItsReason) {
  EmulatedJob const job;
  Runner runner(lower(e_, world().rank()), job.device(), *job.nccl);
  runner.initialize(1);
  emulation::inject_fault(Fault::matmul, 2);
  std::string const reason = failure_of_step(runner);
  EXPECT_TRUE(contains(reason, "cublasLtMatmul")) << reason;
}

TEST_F(Faults, ARefusedCollectiveNamesCallAndReason) {
  EmulatedJob const job;
  Runner runner(lower(e_, world().rank()), job.device(), *job.nccl);
  runner.initialize(1);
  emulation::inject_fault(Fault::nccl_error, 2);
  std::string const reason = failure_of_step(runner);
  EXPECT_TRUE(contains(reason, "ncclAllReduce failed")) << reason;
}

TEST_F(Faults, ARankThatFailsLeavesNoOtherHanging) {
  EmulatedJob const job(short_timeout);
  Runner runner(lower(e_, world().rank()), job.device(), *job.nccl);
  runner.initialize(1);
  if (world().rank() == 0) emulation::inject_fault(Fault::launch, 3);
  auto const start = std::chrono::steady_clock::now();
  std::string const reason = failure_of_step(runner);
  EXPECT_TRUE(contains(reason, world().rank() == 0 ? "cudaErrorLaunchFailure" : "NCCL: no progress")) << reason;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  world().barrier();
}

TEST_F(Faults, AHangIsAbortedAndNamed) {
  for (Cut const& p : {cut(1, world().size(), 1), cut(world().size(), 1, 1), cut(1, 1, world().size())}) {
    EmulatedJob const job(short_timeout);
    Runner runner(lower(emulated_experiment(small_gpt(world().size()), p), world().rank()), job.device(), *job.nccl);
    runner.initialize(1);
    emulation::inject_fault(Fault::nccl_hang, 1);
    std::string const reason = failure_of_step(runner);
    EXPECT_TRUE(contains(reason, "NCCL: ")) << reason;
    bool const named =
        p.pp == 1 ? contains(reason, "ncclAllReduce") : contains(reason, "ncclSend") || contains(reason, "ncclRecv");
    EXPECT_TRUE(named) << reason;
    EXPECT_TRUE(contains(reason, "0.5 s")) << reason;
    emulation::inject_fault(Fault::nccl_hang, 0);
    world().barrier();
  }
}

}  // namespace
}  // namespace shardbench::test
