// Every family of language models: its sharded step is its unsharded one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/harness/exec/expect_parity.hpp"
#include "tests/harness/exec/moe_models.hpp"

namespace shardbench::test {
namespace {

using MakeModel = ModelConfig (*)(std::int64_t layers);

class Families : public testing::TestWithParam<MakeModel> {
 protected:
  /// One layer more than stages, so that stages differ.
  static Experiment experiment(Cut const& p) {
    return small_experiment(GetParam()(std::max<std::int64_t>(p.pp + 1, 2)), p);
  }
};

TEST_P(Families, EachAxisAlone) {
  std::int64_t const n = world().size();
  for (Cut const& p : {cut(n, 1, 1), cut(1, n, 1), cut(1, 1, n)}) expect_equal_steps(experiment(p));
}

TEST_P(Families, SequenceParallel) {
  Cut p = cut(1, world().size(), 1);
  p.sequence_parallel = true;
  expect_equal_steps(experiment(p));
  p.recompute = Recompute::full;
  expect_equal_steps(experiment(p));
}

TEST_P(Families, Products) {
  std::int64_t const n = world().size();
  if (n < 4) GTEST_SKIP() << "4 ranks needed";
  Cut p = cut(n / 4, 2, 2, n == 4 ? ScheduleKind::one_f_one_b : ScheduleKind::zb_h1);
  p.sequence_parallel = n == 4;
  expect_equal_steps(experiment(p));
  p = cut(n / 2, 2, 1);
  p.zero_stage = 1;
  p.recompute = Recompute::selective;
  expect_equal_steps(experiment(p));
}

TEST_P(Families, Bfloat16) {
  Experiment e = experiment(cut(world().size() / 2, 2, 1));
  e.precision = Dtype::bf16;
  expect_equal_steps(e);
}

// All of DeepSeek-V3's block: latent attention, a dense layer first, routed and shared experts; routing is prescribed.
TEST(FamiliesTogether, LatentAttentionAndExperts) {
  std::int64_t const n = world().size();
  ModelConfig model = small_deepseek_moe();
  ModelConfig const latent = small_latent();
  model.heads = latent.heads, model.kv_heads = latent.kv_heads, model.head_dim = latent.head_dim;
  model.mla = latent.mla;
  for (Cut const& p : {expert_cut(n, 1, 1, n), expert_cut(1, n, 1, 2), expert_cut(n / 2, 1, 2, n / 2)})
    expect_equal_steps(small_experiment(model, p));
}

INSTANTIATE_TEST_SUITE_P(Models, Families,
                         testing::Values(small_qwen3, small_gemma2, small_gemma3, small_nope, small_neox, small_falcon,
                                         small_bigcode, small_phi3, small_latent, small_latent_lite),
                         [](auto const& one) { return one.param(2).name.substr(6); });

}  // namespace
}  // namespace shardbench::test
