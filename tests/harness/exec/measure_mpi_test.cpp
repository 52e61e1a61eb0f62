#include <gtest/gtest.h>

#include "harness/exec/measure.hpp"
#include "harness/program/analysis/count.hpp"
#include "harness/program/passes/lower.hpp"
#include "tests/harness/exec/small_models.hpp"
#include "tests/harness/exec/world.hpp"

namespace shardbench::test {
namespace {

Experiment short_run(Cut const& p) {
  Experiment e = small_experiment(small_gpt(4), p);
  e.warmup = 1;
  e.max_iterations = 3;
  e.check = true;
  return e;
}

class Measured : public testing::TestWithParam<int> {
 protected:
  Cut parallel() const {
    std::int64_t const n = world().size();
    switch (GetParam()) {
      case 0:
        return cut(n, 1, 1);
      case 1:
        return cut(1, n, 1);
      default:
        return cut(n / 2, 1, 2);
    }
  }
};

TEST_P(Measured, PartsMakeTheStep) {
  if (world().size() > 4) GTEST_SKIP() << "2 and 4 ranks say it all";
  Experiment const e = short_run(parallel());
  auto const device = make_host_device();
  Runner runner(lower(e, world().rank()), *device, world());
  StepCount const counted = count_step(runner.program(), Replay(runner.program()));
  Measurement const m = measure(runner, e, *device, world());
  ASSERT_TRUE(m.parity.has_value());
  EXPECT_TRUE(m.parity->passed()) << m.parity->worst;
  EXPECT_LT(m.max_identity_error_ms, 1e-6);
  Breakdown const& b = m.breakdown;
  EXPECT_NEAR(b.step_ms, b.compute_ms + b.exposed_comm_ms + b.idle_ms, 1e-6);
  EXPECT_GT(b.compute_ms, 0);
  EXPECT_GT(b.comm_ms, 0);
  EXPECT_LE(b.exposed_comm_ms, b.comm_ms + 1e-9);
  double exposed = 0;
  for (double const axis : b.exposed_axis_ms) exposed += axis;
  EXPECT_NEAR(exposed, b.exposed_comm_ms, 1e-6);
  EXPECT_GE(m.step_ms.samples, 1);
  EXPECT_EQ(m.memory_bytes > 0, true);
  // The first step is the first that was checked: its loss is not that of a later one.
  ASSERT_TRUE(m.loss && m.grad_norm);
  EXPECT_NEAR(*m.loss, m.parity->reference_loss, 1);
  EXPECT_GT(*m.grad_norm, 0);
  for (std::size_t a = 0; a < axis_count; ++a)
    EXPECT_EQ(m.payload_bytes[a] > 0,
              counted.traffic[a].payload_bytes > 0 || (a == static_cast<std::size_t>(Axis::pp) && e.cut.pp > 1));
}

TEST_P(Measured, EveryOpOfTheStepHasASpan) {
  if (world().size() > 4) GTEST_SKIP() << "2 and 4 ranks say it all";
  Experiment e = short_run(parallel());
  e.check = false;
  auto const device = make_host_device();
  Runner runner(lower(e, world().rank()), *device, world());
  StepCount const counted = count_step(runner.program(), Replay(runner.program()));
  Measurement const m = measure(runner, e, *device, world());
  std::vector<std::int64_t> timed(counted.labels.size(), 0);
  for (LabelTime const& l : m.labels) {
    ASSERT_LT(l.label, timed.size());
    timed[l.label] = l.count;
    EXPECT_GE(l.total_ms, 0);
  }
  for (std::size_t i = 0; i < timed.size(); ++i) EXPECT_EQ(timed[i], counted.labels[i].count) << i;
}

INSTANTIATE_TEST_SUITE_P(Axes, Measured, testing::Values(0, 1, 2));

}  // namespace
}  // namespace shardbench::test
