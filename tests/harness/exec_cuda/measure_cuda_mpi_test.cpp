// Measurement on the emulated GPU: spans are CUDA events, and they still make the step. No time is judged.
#include "harness/exec/measure.hpp"
#include "harness/program/analysis/count.hpp"
#include "tests/harness/exec_cuda/emulated_job.hpp"

namespace shardbench::test {
namespace {

void expect_parts_make_the_step(Cut const& p) {
  EmulatedJob const job;
  Experiment e = emulated_experiment(small_gpt(2), p);
  e.warmup = 1;
  e.max_iterations = 2;
  e.check = true;
  Runner runner(lower(e, world().rank()), job.device(), *job.nccl);
  StepCount const counted = count_step(runner.program(), Replay(runner.program()));
  int const profiled = emulation::profiled_ranges();
  Measurement const m = measure(runner, e, job.device(), world());
  ASSERT_TRUE(m.parity.has_value());
  EXPECT_TRUE(m.parity->passed()) << m.parity->worst;
  EXPECT_LT(m.max_identity_error_ms, 1e-6);
  EXPECT_EQ(emulation::profiled_ranges(), profiled + 1);
  EXPECT_FALSE(emulation::profiling());
  Breakdown const& b = m.breakdown;
  EXPECT_NEAR(b.step_ms, b.compute_ms + b.exposed_comm_ms + b.idle_ms, 1e-6);
  EXPECT_GT(b.compute_ms, 0);
  EXPECT_GT(b.comm_ms, 0);
  EXPECT_LE(b.exposed_comm_ms, b.comm_ms + 1e-9);
  EXPECT_LE(b.bubble_ms, b.idle_ms + 1e-9);
  for (Span const& span : m.spans) {
    EXPECT_LE(span.start_ms, span.end_ms);
    EXPECT_GE(span.start_ms, 0);
  }
  std::vector<std::int64_t> timed(counted.labels.size(), 0);
  for (LabelTime const& l : m.labels)
    if (l.label < timed.size()) timed[l.label] = l.count;
  for (std::size_t i = 0; i < timed.size(); ++i) EXPECT_EQ(timed[i], counted.labels[i].count) << i;
  EXPECT_EQ(joined(emulation::take_races()), "");
}

TEST(EmulatedMeasure, DataParallel) { expect_parts_make_the_step(cut(world().size(), 1, 1)); }
TEST(EmulatedMeasure, TensorParallel) { expect_parts_make_the_step(cut(1, world().size(), 1)); }
TEST(EmulatedMeasure, TensorAndPipelineParallel) { expect_parts_make_the_step(cut(1, world().size() / 2, 2)); }

}  // namespace
}  // namespace shardbench::test
