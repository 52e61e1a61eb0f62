#include "harness/planner/serve_plan.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/core/error.hpp"
#include "tests/harness/planner/planned_models.hpp"

namespace shardbench::test {
namespace {

ServeRequest request_of(std::string const& model, std::int64_t layers, std::int64_t devices, std::int64_t prompt) {
  ServeRequest r;
  r.base = base_of(model, layers, prompt);
  r.base.context = prompt;
  r.devices = devices;
  return r;
}

// Every cut and batch of a small space, each simulated whole.
TEST(ServePlan, LowestLatencyEqualsBruteForce) {
  CostModel const model = h100();
  ServeRequest r = request_of("llama3.1-8b", 8, 8, 512);
  r.sequences = 8;
  ServeResult const planned = plan_serving(r, model, {.top = 3}, Objective::latency);
  ASSERT_FALSE(planned.best.empty());
  double least = 0;
  for (std::int64_t tp = 1; tp <= 8; tp *= 2)
    for (std::int64_t pp = 1; tp * pp <= 8; pp *= 2)
      for (std::int64_t microbatches = 1; microbatches <= pp; microbatches *= pp > 1 ? pp : 2) {
        ServeCut const cut{
            .tp = tp, .pp = pp, .ep = 1, .replicas = 8 / (tp * pp), .batch = tp * pp, .microbatches = microbatches};
        double const ms = look_closer(r, model, cut).tpot_ms;
        if (least == 0 || ms < least) least = ms;
      }
  EXPECT_NEAR(planned.best.front().tpot_ms, least, 1e-9 * least);
  for (ServedPoint const& p : planned.best) EXPECT_EQ(p.cut.batch * p.cut.replicas, 8);
}

// Dense layers before those with experts: told from few layers of each kind, and right all the same.
TEST(ServePlan, UnlikeLayersAreScreenedWell) {
  CostModel const model = h100();
  ServeRequest r = request_of("deepseek-v3", 9, 8, 512);
  r.sequences = 8;
  r.demands.fix = {"pp=1"};
  ServeResult const planned = plan_serving(r, model, {.top = 1, .simulated = 1}, Objective::latency);
  ASSERT_FALSE(planned.best.empty());
  double least = 0;
  for (std::int64_t tp = 1; tp <= 8; tp *= 2)
    for (std::int64_t ep = 1; ep <= 8; ep *= 2) {
      ServedPoint const p = look_closer(r, model, {.tp = tp, .ep = ep, .replicas = 8 / tp, .batch = tp});
      if (p.memory_bytes <= 80e9 && (least == 0 || p.tpot_ms < least)) least = p.tpot_ms;
    }
  EXPECT_NEAR(planned.best.front().tpot_ms, least, 1e-9 * least);
  EXPECT_NEAR(planned.least_tpot_ms, least, 0.02 * least);
}

TEST(ServePlan, LimitsHoldAndMoreThroughputNeedsPatience) {
  CostModel const model = h100();
  ServeRequest r = request_of("llama3.1-8b", 8, 4, 512);
  r.tpot_limit_ms = 4;
  ServeResult const strict = plan_serving(r, model, {.top = 4}, Objective::tokens_per_gpu_hour);
  ASSERT_FALSE(strict.best.empty());
  EXPECT_GT(strict.too_slow, 0);
  for (ServedPoint const& p : strict.best) EXPECT_LE(p.tpot_ms, 4);
  r.tpot_limit_ms = 40;
  ServeResult const patient = plan_serving(r, model, {.top = 4}, Objective::tokens_per_gpu_hour);
  EXPECT_GT(patient.best.front().tokens_per_s_per_device(), strict.best.front().tokens_per_s_per_device());
  r.ttft_limit_ms = 0.001;
  ServeResult const none = plan_serving(r, model, {}, Objective::tokens_per_gpu_hour);
  EXPECT_TRUE(none.best.empty());
  EXPECT_GT(none.least_ttft_ms, 0.001);
  ServedPoint const nearest = look_closer(r, model, none.nearest);
  EXPECT_NEAR(none.nearest_miss, nearest.ttft_ms / 0.001, 0.02 * none.nearest_miss);
}

// Case M12: 405,853,388,800 parameters of 2 bytes are 811.7 GB: more than four devices of 180 GB, whatever the cut;
// five would do by size, but the 8 KV heads and 128 heads make it eight.
TEST(ServePlan, FourDevicesDoNotHold405b) {
  CostModel const model(load_system("b200"), load_stack("ours"));
  ServeRequest r = request_of("llama3.1-405b", 126, 4, 128);
  ServeResult const four = plan_serving(r, model, {}, Objective::latency);
  EXPECT_TRUE(four.best.empty());
  EXPECT_EQ(four.too_big, four.legal);
  EXPECT_GE(four.least_memory_bytes, 811.7e9 / 4);
  double const weights = 2.0 * static_cast<double>(count_parameters(load_model("llama3.1-405b")).total);
  EXPECT_EQ(weights, 2.0 * 405'853'388'800);
  EXPECT_EQ(std::ceil(weights / 180e9), 5);
  r.devices = 8;
  ServeResult const eight = plan_serving(r, model, {.top = 1, .simulated = 1}, Objective::latency);
  ASSERT_FALSE(eight.best.empty());
  EXPECT_EQ(eight.best.front().cut.tp * eight.best.front().cut.pp, 8);
  EXPECT_GE(eight.best.front().memory_bytes, 811.7e9 / 8);
}

TEST(ServePlan, DemandsThatMeanNothingHereAreRefused) {
  ServeRequest r = request_of("gpt2", 4, 4, 64);
  r.demands.fix = {"zero=1"};
  EXPECT_THROW(static_cast<void>(plan_serving(r, h100(), {}, Objective::latency)), InputError);
  r.demands.fix = {"tp=3"};
  EXPECT_THROW(static_cast<void>(plan_serving(r, h100(), {}, Objective::latency)), InputError);
  r.demands.fix = {"tp=2"};
  EXPECT_EQ(plan_serving(r, h100(), {}, Objective::latency).best.front().cut.tp, 2);
}

}  // namespace
}  // namespace shardbench::test
