#include "harness/planner/goodput.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

// Case A02 (Narayanan et al. 2021, table 2): tokens, parameters, GPUs, TFLOP/s a GPU, days published.
TEST(Goodput, DaysOfPublishedRuns) {
  struct Published {
    double parameters, devices, tflops, days, published;
  };
  for (Published const p : {Published{174.6e9, 384, 153, 82.6, 84},
                            {174.6e9, 768, 149, 42.4, 43},
                            {174.6e9, 1536, 141, 22.4, 23},
                            {529.6e9, 560, 171, 153.6, 156},
                            {529.6e9, 1120, 167, 78.7, 80},
                            {529.6e9, 2240, 159, 41.3, 42}}) {
    // A step of 1536 sequences of 2048 tokens takes 8 FLOPs a parameter and token with full recomputation.
    double const step_tokens = 1536 * 2048,
                 step_ms = 1e3 * 8 * step_tokens * p.parameters / (p.devices * 1e12 * p.tflops);
    double const days =
        training_budget(300e9, step_tokens, step_ms, static_cast<std::int64_t>(p.devices), {}, 0, 0).days;
    EXPECT_NEAR(days, p.days, 0.06);
    EXPECT_NEAR(days / p.published, 1, 0.03);
  }
}

// Llama 3 405B (Dubey et al. 2024): 419 unexpected interruptions in 54 days on 16,384 H100, above 90% effective.
TEST(Goodput, Llama405bStaysAboveNinetyPercent) {
  double const mtbf = 54.0 * 24 * 16384 / 419;
  Goodput const g = goodput(16384, {.mtbf_device_hours = mtbf});
  EXPECT_NEAR(g.job_mtbf_hours, 3.093, 0.001);
  EXPECT_GT(g.effective_share, 0.9);
  EXPECT_LT(g.effective_share, 0.97);
}

TEST(Goodput, TheIntervalIsTheBestOne) {
  FailureModel const f{.mtbf_device_hours = 50000, .checkpoint_s = 40, .restart_s = 500};
  Goodput const g = goodput(4096, f);
  double const between = 3600 * g.job_mtbf_hours;
  auto const share = [&](double interval) {
    return 1 - f.checkpoint_s / interval - interval / (2 * between) - f.restart_s / between;
  };
  EXPECT_NEAR(g.effective_share, share(g.checkpoint_interval_s), 1e-12);
  for (double const factor : {0.5, 0.9, 1.1, 2.0})
    EXPECT_LT(share(factor * g.checkpoint_interval_s), g.effective_share);
}

TEST(Goodput, NothingFailsWithoutAFailureRate) {
  Goodput const g = goodput(16384, {});
  EXPECT_EQ(g.effective_share, 1);
  EXPECT_EQ(g.checkpoint_interval_s, 0);
}

TEST(Goodput, AJobThatOnlyRestartsIsRefused) {
  EXPECT_THROW(goodput(100000, {.mtbf_device_hours = 5000, .checkpoint_s = 60, .restart_s = 600}), InputError);
}

TEST(Goodput, BudgetOfARun) {
  // 1e12 tokens at 4e6 a step: 250,000 steps of 7.2 s are 500 hours; half of the time is lost.
  TrainingBudget const b = training_budget(1e12, 4e6, 7200, 1000, {.effective_share = 0.5}, 0, 2.0);
  EXPECT_DOUBLE_EQ(b.steps, 250000);
  EXPECT_NEAR(b.days, 1000 / 24.0, 1e-9);
  EXPECT_NEAR(b.device_hours, 1e6, 1e-6);
  EXPECT_NEAR(b.cost, 2e6, 1e-3);
}

}  // namespace
}  // namespace shardbench
