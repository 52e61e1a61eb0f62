// Experts on the emulated GPU: counts read back by the host, uneven exchanges through grouped NCCL sends and receives.
#include "tests/harness/exec/moe_models.hpp"
#include "tests/harness/exec_cuda/emulated_job.hpp"

namespace shardbench::test {
namespace {

class EmulatedMoe : public testing::Test {
 protected:
  static void SetUpTestSuite() { job_ = std::make_unique<EmulatedJob>(); }
  static void TearDownTestSuite() { job_.reset(); }
  void TearDown() override { emulation::set_delay_seed(0); }
  static std::int64_t ranks() { return world().size(); }
  static void expect(Experiment e) {
    resolve(e);
    expect_parity(*job_, e, 1);
  }
  static Experiment learned(ModelConfig const& model, Cut const& p) {
    Experiment e = emulated_experiment(model, p);
    e.routing = RoutingKind::learned;
    return e;
  }
  static std::unique_ptr<EmulatedJob> job_;
};

std::unique_ptr<EmulatedJob> EmulatedMoe::job_;

TEST_F(EmulatedMoe, EveryFamily) {
  Cut const cut = ranks() == 2 ? expert_cut(2, 1, 1, 2) : expert_cut(2, 2, 1, 4);
  for (ModelConfig const& model : small_moe_models()) expect(learned(model, cut));
}

TEST_F(EmulatedMoe, AcrossTensorParallelRanksAndWithCutExperts) {
  expect(learned(small_qwen15_moe(2), expert_cut(1, 2, ranks() / 2, 2)));
  expect(learned(small_mixtral(1), expert_cut(ranks(), 1, 1, ranks() / 2, 2)));
}

TEST_F(EmulatedMoe, SkewInBfloat16AndCapacity) {
  Experiment e = emulated_experiment(small_qwen3_moe(1), expert_cut(ranks(), 1, 1, ranks()));
  e.router_skew = 3;
  e.precision = Dtype::bf16;
  expect(e);
  e = learned(small_mixtral(1), expert_cut(ranks() / 2, 2, 1, 2));
  e.capacity = 1;
  expect(e);
  Cut p = expert_cut(1, ranks() / 2, 1, 2);
  p.cp = 2;
  e = learned(small_mixtral(1), p);
  e.capacity = 1;
  expect(e);
}

TEST_F(EmulatedMoe, RecomputeAndShardedOptimizerWithDelays) {
  emulation::set_delay_seed(7);
  Cut p = expert_cut(ranks(), 1, 1, 2);
  p.recompute = Recompute::full;
  p.zero_stage = 1;
  expect(learned(small_deepseek_moe(2), p));
}

}  // namespace
}  // namespace shardbench::test
