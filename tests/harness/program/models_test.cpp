// Real models: what their programs hold, count and cache.
#include <gtest/gtest.h>

#include "harness/program/passes/inference.hpp"
#include "kernels/core/error.hpp"
#include "tests/harness/program/programs.hpp"

namespace shardbench::test {
namespace {

Experiment of(std::string const& model, Cut const& p = {}, PhaseKind phase = PhaseKind::train) {
  Experiment e;
  e.model_name = model;
  e.cut = p;
  e.phase = phase;
  e.precision = Dtype::bf16;
  return e;
}

// The program of one rank holds exactly the parameters that the architecture has, padding of the vocabulary apart.
TEST(Models, EveryPresetHoldsWhatItCounts) {
  std::int64_t lowered = 0;
  for (std::string const& name : preset_names()) {
    Experiment e = of(name);
    e.model = load_model(name);
    if (!e.model.yolo) e.layers = std::min<std::int64_t>(e.model.layers, 5);
    resolve(e);
    std::int64_t held = 0;
    try {
      StepProgram const p = lower(e, 0);
      for (Parameter const& parameter : p.parameters) held += parameter.copy ? 0 : parameter.elements();
      std::int64_t const tables = e.model.tied_embeddings || e.model.vision ? 1 : 2;
      std::int64_t const padding = e.model.vision ? 0 : tables * (p.padded_vocab - p.vocab) * e.model.hidden;
      // The selection bias of a router is no weight: it is balanced by rule, not by gradient.
      std::int64_t biases = 0;
      for (std::int64_t l = 0; l < e.model.layers; ++l)
        if (e.model.is_moe_layer(l) && e.model.moe->router_bias) biases += e.model.moe->experts;
      EXPECT_EQ(held - padding + biases, count_parameters(e.model).total) << name;
      ++lowered;
    } catch (IllegalConfig const& refusal) {
      EXPECT_EQ(std::string(refusal.what()).find('\n'), std::string::npos) << name;
    }
  }
  EXPECT_GE(lowered, 33);
}

// Gemma 2 looks back a window in every other layer, Gemma 3 in five of six, Mistral in all.
TEST(Models, WhichLayersHaveAWindow) {
  auto const windowed = [](std::string const& model, std::int64_t full_attention_step) {
    Experiment e = of(model);
    e.model = load_model(model);
    e.model.full_attention_step = full_attention_step;
    e.layers = 7, e.seq = 8192;
    resolve(e);
    std::vector<std::int32_t> layers;
    for_each_op(lower(e, 0), [&](Op const& op, shardbench::Run const& run) {
      if (op.kind != OpKind::attention_forward || run.microbatch > 0) return;
      if (std::get<AttentionOpShape>(op.shape).window > 0) layers.push_back(op.layer);
    });
    return layers;
  };
  using Layers = std::vector<std::int32_t>;
  EXPECT_EQ(load_model("gemma-2-9b").full_attention_step, 2);
  EXPECT_EQ(windowed("gemma-2-9b", 2), (Layers{0, 2, 4, 6}));
  EXPECT_EQ(windowed("gemma-2-9b", 6), (Layers{0, 1, 2, 3, 4, 6}));
  EXPECT_EQ(windowed("mistral-7b", load_model("mistral-7b").full_attention_step), (Layers{0, 1, 2, 3, 4, 5, 6}));
}

// A prediction layer is one more block, two norms and a projection, and another head's product; embedding and head are
// held once.
TEST(MultiTokenPrediction, HoldsCountsAndComputesItsLayers) {
  Experiment e = of("deepseek-v3");
  e.model = load_model("deepseek-v3");
  e.layers = 4, e.seq = 128;
  resolve(e);
  Experiment with = e, deeper = e;
  with.mtp = 1;
  resolve(with);
  deeper.model.layers = deeper.layers = 5;
  StepProgram const plain = lower(e, 0), more = lower(with, 0), block = lower(deeper, 0);
  std::int64_t const biases = e.model.moe->experts;  // of a router, no weight of the step
  EXPECT_EQ(counted(more).parameters - counted(plain).parameters, count_parameters(e.model).mtp - biases);
  double const h = static_cast<double>(e.model.hidden), tokens = 128;
  double const vocab = static_cast<double>(plain.padded_vocab);
  double const one_block = counted(block).model_flops - counted(plain).model_flops;
  EXPECT_NEAR(counted(more).model_flops - counted(plain).model_flops, one_block + 6 * tokens * (2 * h * h + h * vocab),
              1e-9 * counted(more).model_flops);
  EXPECT_GT(plan_memory(more, Replay(more)).activation_peak_bytes,
            plan_memory(plain, Replay(plain)).activation_peak_bytes);
}

TEST(MultiTokenPrediction, RefusalsNameTheLayersThatThereAre) {
  auto const refusal = [](std::string const& model, PhaseKind phase, std::int64_t mtp) {
    Experiment e = of(model, {}, phase);
    e.mtp = mtp;
    try {
      resolve(e);
    } catch (IllegalConfig const& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal("gpt2", PhaseKind::train, 1), "mtp: 1 given, gpt2 has 0 prediction layers; legal: 0");
  EXPECT_EQ(refusal("deepseek-v3", PhaseKind::train, 2),
            "mtp: 2 given, deepseek-v3 has 1 prediction layers; legal: 0 to 1");
  EXPECT_EQ(refusal("deepseek-v3", PhaseKind::decode, 1), "mtp: 1 given, decode has no loss; legal: 0");
  EXPECT_EQ(refusal("deepseek-v3", PhaseKind::train, 1), "");
}

// Case A04: gated MLPs and grouped heads, at h = 4096, ffn 14336, 32 over 8 heads.
TEST(Cases, A04_GatedMlpAndGroupedHeads) {
  Experiment e = of("llama3.1-8b");
  e.layers = 1;
  e.seq = 128;
  resolve(e);
  StepProgram const p = lower(e, 0);
  double mlp = 0, projections = 0;
  for_each_op(p, [&](Op const& op, shardbench::Run const& run) {
    if (op.kind != OpKind::gemm || run.kind != ActionKind::forward) return;
    std::string const& name = p.labels[static_cast<std::size_t>(op.label)].name;
    if (name.starts_with("mlp.")) mlp += model_flops(p, op, false);
    if (name.starts_with("attention.")) projections += model_flops(p, op, false);
  });
  EXPECT_EQ(mlp / 128, 352'321'536);  // 2 * 3 * h * ffn, not 16 h^2 = 268,435,456
  EXPECT_EQ(projections / 128, 4.0 * 4096 * 4096 + 4.0 * 4096 * 1024);
}

// Case M11: a cache never has less than one KV head, and a latent's is 71 times smaller than that of its heads.
TEST(Cases, M11_CacheOfGroupedHeadsAndOfLatents) {
  Cut p;
  p.tp = 32;
  Experiment llama = of("llama3.1-8b", p, PhaseKind::decode);
  resolve(llama);
  EXPECT_EQ(kv_bytes_per_token(lower(llama, 0)), 32 * (2 * 1 * 128) * 2);
  Experiment deepseek = of("deepseek-v3", {}, PhaseKind::decode);
  deepseek.model = load_model("deepseek-v3");
  deepseek.model.moe.reset();
  resolve(deepseek);
  EXPECT_EQ(kv_bytes_per_token(lower(deepseek, 0)), 70'272);
  ModelConfig const& m = deepseek.model;
  std::int64_t const of_heads =
      m.heads * (m.mla->qk_nope_head_dim + m.mla->qk_rope_head_dim + m.mla->v_head_dim) * 2 * m.layers;
  EXPECT_EQ(of_heads, 4'997'120);
  EXPECT_NEAR(static_cast<double>(of_heads) / 70'272, 71, 0.2);
}

TEST(Decode, CachesAndComputesForOneTokenOfTheContext) {
  Cut cut;
  cut.tp = 4;
  Experiment e = of("llama3.1-8b", cut, PhaseKind::decode);
  e.context = 4096;
  resolve(e);
  StepProgram const p = lower(e, 0);
  MemoryPlan const plan = plan_memory(p, Replay(p));
  EXPECT_EQ(plan.kv_cache_bytes, 4097LL * kv_bytes_per_token(p));
  EXPECT_EQ(plan.gradient_bytes + plan.optimizer_bytes, 0);
  StepCount const c = counted(p);
  // 2 FLOPs a weight of the blocks and the head, plus 4 * heads * head_dim a cached token and layer.
  ParameterCount const count = count_parameters(e.model);
  double const weights = static_cast<double>(count.blocks + count.head);
  double const core = 4.0 * 32 * 128 * 4097 * 32;
  EXPECT_NEAR(c.model_flops, (2 * weights + core) / 4, 0.001 * c.model_flops);
}

}  // namespace
}  // namespace shardbench::test
