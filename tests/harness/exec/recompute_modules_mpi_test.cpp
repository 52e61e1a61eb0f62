// Parts of a layer computed again in backward: the loss, gradients and weights of the unsharded step, whatever the part
// and the cut.
#include "tests/harness/exec/expect_parity.hpp"
#include "tests/harness/exec/moe_models.hpp"

namespace shardbench::test {
namespace {

std::int64_t ranks() { return world().size(); }

RecomputeModules modules(std::string const& names) { return parse_recompute_modules("recompute-modules", names); }

Cut with_modules(Cut p, std::string const& names) {
  p.recompute_modules = modules(names);
  return p;
}

/// All of DeepSeek-V3's block, and a dense layer first.
ModelConfig small_deepseek(std::int64_t layers = 3) {
  ModelConfig model = small_deepseek_moe(layers);
  ModelConfig const latent = small_latent();
  model.heads = latent.heads, model.kv_heads = latent.kv_heads, model.head_dim = latent.head_dim;
  model.mla = latent.mla;
  return model;
}

TEST(RecomputeModules, EachAlone) {
  std::vector<Cut> cuts{expert_cut(ranks(), 1, 1, ranks()), expert_cut(1, ranks(), 1, 2)};
  cuts.back().sequence_parallel = true;
  for (RecomputeModule const m : enum_values<RecomputeModule>())
    for (Cut const& p : cuts)
      if (ranks() < 8 || p.tp == 1)
        expect_equal_steps(small_experiment(small_deepseek(), with_modules(p, std::string(to_string(m)))), 1);
}

TEST(RecomputeModules, TogetherUnderEveryKindOfSchedule) {
  if (ranks() != 4) return;
  for (ScheduleKind const schedule : {ScheduleKind::one_f_one_b, ScheduleKind::zb_h1, ScheduleKind::dualpipe}) {
    Cut p = expert_cut(2, 1, 2, 2);
    p.schedule = schedule;
    for (char const* const names : {"layernorm+mla_up_proj+moe_act", "core_attn+moe+mlp", "layernorm+shared_experts"}) {
      Experiment e = small_experiment(small_deepseek(4), with_modules(p, names));
      e.routing = RoutingKind::learned;
      expect_equal_steps(e, 1);
    }
  }
}

// Norms of heads, norms behind branches, biases, several slices of a product, a ring of context ranks, sharded weights.
TEST(RecomputeModules, BesideOtherFeatures) {
  std::string const all = "core_attn+layernorm+mlp";
  std::int64_t const n = ranks();
  expect_equal_steps(small_experiment(small_gemma3(2), with_modules(cut(1, n, 1), all)), 1);
  expect_equal_steps(small_experiment(small_qwen3(2), with_modules(cut(n, 1, 1), "layernorm+activation")), 1);
  Cut overlapped = with_modules(cut(1, n, 1), "layernorm+activation+mlp");
  overlapped.tp_overlap = TpOverlap::chunked, overlapped.sequence_parallel = n == 2;
  expect_equal_steps(small_experiment(small_gpt(2), overlapped), 1);
  Cut ring = with_modules(cut(1, 1, 1), all);
  ring.cp = n;
  expect_equal_steps(small_experiment(small_llama(2), ring), 1);
  Cut sharded = with_modules(cut(n, 1, 1), all);
  sharded.zero_stage = 3;
  sharded.recompute = Recompute::full, sharded.recompute_layers = 1;  // the second layer's parts
  Experiment e = small_experiment(small_gpt(2), sharded);
  e.dropout = 0.1;
  expect_equal_steps(e, 1);
}

TEST(LossChunks, GiveTheLossAndGradientsOfTheWhole) {
  std::int64_t const n = ranks();
  for (std::int64_t const chunks : {2, 3}) {
    for (Cut p : {cut(1, n, 1), cut(n, 1, 1), cut(1, 1, 2)}) {
      if (p.ranks() != n) continue;
      p.sequence_parallel = p.tp > 1 && chunks == 2;
      for (ModelConfig const& model : {small_gpt(2), small_llama(2)}) {
        Experiment e = small_experiment(model, p);
        e.loss_chunks = chunks;
        expect_parity(e, 1);
      }
    }
  }
}

}  // namespace
}  // namespace shardbench::test
