// What single families fix in their code: each a fault once, with its right value.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/config/experiment.hpp"
#include "tests/harness/config/model_files.hpp"

namespace shardbench {
namespace {

using test::contains, test::llama, test::refused;

using Json = nlohmann::json;

ModelConfig parsed(Json const& config) { return parse_model_config(config.dump(), "m"); }
std::int64_t count(Json const& config) { return count_parameters(parsed(config)).total; }

Json base(char const* type, Json const& more = Json::object()) {
  Json config = {
      {"model_type", type}, {"hidden_size", 64},        {"intermediate_size", 96},  {"num_hidden_layers", 3},
      {"vocab_size", 100},  {"num_attention_heads", 4}, {"num_key_value_heads", 4}, {"max_position_embeddings", 64}};
  config.update(more);
  return config;
}

Json const latent = {{"kv_lora_rank", 16}, {"qk_nope_head_dim", 8}, {"qk_rope_head_dim", 4}, {"v_head_dim", 6}};

Json deepseek(char const* type, Json const& more) {
  Json config = base(type, latent);
  config.update(
      {{"n_routed_experts", 4}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 32}, {"n_shared_experts", 1}});
  config.update(more);
  return config;
}

TEST(ModelFamilyFacts, LatentAttentionHasBiasesOnItsDownProjectionsAndItsOutput) {
  Json const plain = deepseek("deepseek_v2", {{"q_lora_rank", 24}});
  Json biased = plain;
  biased["attention_bias"] = true;
  EXPECT_EQ(count(biased) - count(plain), 3 * (24 + (16 + 4) + 64));  // q_a, kv_a with its rotary part, o
  Json direct = deepseek("deepseek_v2", {{"q_lora_rank", nullptr}});
  std::int64_t const unbiased = count(direct);
  direct["attention_bias"] = true;
  EXPECT_EQ(count(direct) - unbiased, 3 * ((16 + 4) + 64));  // q_proj has none
}

TEST(ModelFamilyFacts, DeepseekDefaultsAreThoseOfItsClasses) {
  EXPECT_EQ(parsed(deepseek("deepseek_v2", Json::object())).mla->q_lora_rank, 1536);
  EXPECT_EQ(parsed(deepseek("deepseek_v3", Json::object())).mla->q_lora_rank, 1536);
  EXPECT_EQ(parsed(deepseek("deepseek_v2", {{"q_lora_rank", nullptr}})).mla->q_lora_rank, 0);
  // V2's code never looks at norm_topk_prob, which is said; V3's norms unless told otherwise.
  ModelConfig const v2 = parsed(deepseek("deepseek_v2", {{"q_lora_rank", 24}, {"norm_topk_prob", true}}));
  EXPECT_FALSE(v2.moe->normalize_top_k);
  ASSERT_EQ(v2.notes.size(), 1u);
  EXPECT_TRUE(contains(v2.notes[0].text, "norm_topk_prob"));
  EXPECT_TRUE(parsed(deepseek("deepseek_v3", {{"q_lora_rank", 24}})).moe->normalize_top_k);
  EXPECT_FALSE(parsed(deepseek("deepseek_v3", {{"q_lora_rank", 24}, {"norm_topk_prob", false}})).moe->normalize_top_k);
  // The norms of the latents have an eps of their own.
  EXPECT_EQ(parsed(deepseek("deepseek_v3", {{"rms_norm_eps", 1e-3}})).mla->norm_eps, 1e-6f);
}

TEST(ModelFamilyFacts, QwenMoeReadsItsBiases) {
  Json const moe = base("qwen2_moe", {{"num_experts", 4},
                                      {"num_experts_per_tok", 2},
                                      {"moe_intermediate_size", 32},
                                      {"shared_expert_intermediate_size", 48}});
  Json without = moe;
  without["qkv_bias"] = false;
  EXPECT_EQ(count(moe) - count(without), 3 * 3 * 64);
  EXPECT_TRUE(parsed(without).notes.empty());
}

TEST(ModelFamilyFacts, NotesDoNotNameWhatAStepHas) {
  Json const falcon = {{"model_type", "falcon"},           {"hidden_size", 64}, {"num_attention_heads", 4},
                       {"num_hidden_layers", 2},           {"vocab_size", 100}, {"multi_query", true},
                       {"new_decoder_architecture", true}, {"num_kv_heads", 2}, {"parallel_attn", true}};
  EXPECT_TRUE(parsed(falcon).notes.empty());
  EXPECT_TRUE(parsed(base("gpt_neox", {{"rotary_emb_base", 500}, {"rope_theta", 500}})).notes.empty());
  Json const full = {{"head_dim", 16}, {"layer_types", {"full_attention", "full_attention", "full_attention"}}};
  EXPECT_TRUE(parsed(base("qwen3", full)).notes.empty());
  EXPECT_TRUE(parsed(base("llama", full)).notes.empty());
  // What it has not is still named.
  Json const windows = {{"layer_types", {"sliding_attention", "full_attention", "full_attention"}}};
  ASSERT_EQ(parsed(base("llama", windows)).notes.size(), 1u);
  EXPECT_TRUE(contains(parsed(base("llama", windows)).notes[0].text, "layer_types"));
}

TEST(ModelFamilyFacts, DynamicRotationGrowsFromTheModelsPositions) {
  ModelConfig const m = parse_model_config(llama(R"({"max_position_embeddings": 1000,
                "rope_scaling": {"type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 10}})"),
                                           "m");
  EXPECT_EQ(m.rope_rule(0, 1000, 16)->theta, 1e4f);
  EXPECT_NEAR(m.rope_rule(0, 3000, 16)->theta, 1e4 * std::pow(2.0 * 3 - 1, 16.0 / 14), 0.1);
  EXPECT_TRUE(contains(refused(llama(R"({"rope_scaling": {"type": "dynamic", "factor": 2.0}})")),
                       "max_position_embeddings, which is missing"));
}

TEST(ModelFamilyFacts, RotationFactorsMayBeEqual) {
  auto const scaled = [](char const* high) {
    return llama(std::string(R"({"max_position_embeddings": 100, "rope_scaling": {"rope_type": "llama3", "factor": 8,
                                 "low_freq_factor": 1.0, "high_freq_factor": )") +
                 high + "}}");
  };
  EXPECT_EQ(refused(scaled("1.0")), "");
  EXPECT_TRUE(contains(refused(scaled("0.5")), "0.5 is below low_freq_factor 1"));
}

TEST(ModelFamilyFacts, Llama4WeighsWhatItsExpertsRead) {
  Json const config =
      base("llama4_text",
           {{"head_dim", 16}, {"num_local_experts", 4}, {"num_experts_per_tok", 1}, {"intermediate_size_mlp", 96}});
  EXPECT_TRUE(parsed(config).moe->scales_input);
  EXPECT_FALSE(parsed(deepseek("deepseek_v3", {{"q_lora_rank", 24}})).moe->scales_input);
}

TEST(ModelFamilyFacts, ArchitecturesSayWhatStandsBehindTheBlocks) {
  std::int64_t const head = 100 * 64;
  Json config = base("llama");
  std::int64_t const whole = count(config);
  config["architectures"] = {"LlamaForCausalLM"};
  EXPECT_EQ(count(config), whole);
  config["architectures"] = {"LlamaModel"};
  EXPECT_EQ(count(config), whole - head);
  EXPECT_TRUE(parsed(config).headless);
  config["architectures"] = {"LlamaForSequenceClassification"};
  EXPECT_EQ(count(config), whole - head + 2 * 64);  // two labels unless the file says how many
  config["num_labels"] = 1;
  EXPECT_EQ(count(config), whole - head + 64);
  // GPT-2 with its head is called so.
  Json const gpt2 = {{"model_type", "gpt2"},
                     {"n_embd", 64},
                     {"n_head", 4},
                     {"n_layer", 2},
                     {"n_positions", 8},
                     {"vocab_size", 100},
                     {"architectures", {"GPT2LMHeadModel"}}};
  EXPECT_FALSE(parsed(gpt2).headless);
}

/// A reward model of Llama 3.1 8B: 8,030,261,248 without the head of 128256 x 4096 and with one score.
TEST(ModelFamilyFacts, ARewardModelHasAScoreForAHead) {
  ModelConfig reward = load_model("llama3.1-8b");
  reward.labels = 1;
  EXPECT_EQ(count_parameters(reward).total, 7'504'928'768);
}

TEST(ModelFamilyFacts, NestedConfigsLeaveOutWhatTheirClassHas) {
  Json const llava = {{"model_type", "llava"},
                      {"text_config", {{"model_type", "llama"}, {"vocab_size", 32064}, {"rms_norm_eps", 1e-5}}},
                      {"vision_config", {{"model_type", "clip_vision_model"}}}};
  EXPECT_EQ(count(llava), 6'738'939'904);  // the language part of LLaVA-1.5-7B
  Json const pixtral = {{"model_type", "llava"},
                        {"text_config",
                         {{"model_type", "mistral"},
                          {"head_dim", 128},
                          {"hidden_size", 5120},
                          {"intermediate_size", 14336},
                          {"num_hidden_layers", 40},
                          {"num_key_value_heads", 8},
                          {"vocab_size", 131072}}}};
  EXPECT_EQ(count(pixtral), 12'247'782'400);
  // A file of its own says all.
  EXPECT_TRUE(contains(refused(R"({"model_type": "llama", "vocab_size": 32064})"), "num_hidden_layers: missing"));
}

/// Published sizes of Kimi K2: DeepSeek-V3 under another name.
TEST(ModelFamilyFacts, KimiIsDeepseekUnderAnotherName) {
  Json const kimi = {{"model_type", "kimi_k2"},
                     {"hidden_size", 7168},
                     {"intermediate_size", 18432},
                     {"num_hidden_layers", 61},
                     {"num_attention_heads", 64},
                     {"num_key_value_heads", 64},
                     {"vocab_size", 163840},
                     {"max_position_embeddings", 131072},
                     {"q_lora_rank", 1536},
                     {"kv_lora_rank", 512},
                     {"qk_nope_head_dim", 128},
                     {"qk_rope_head_dim", 64},
                     {"v_head_dim", 128},
                     {"n_routed_experts", 384},
                     {"num_experts_per_tok", 8},
                     {"n_shared_experts", 1},
                     {"moe_intermediate_size", 2048},
                     {"first_k_dense_replace", 1},
                     {"moe_layer_freq", 1},
                     {"n_group", 1},
                     {"topk_group", 1},
                     {"topk_method", "noaux_tc"},
                     {"scoring_func", "sigmoid"},
                     {"norm_topk_prob", true},
                     {"routed_scaling_factor", 2.827},
                     {"tie_word_embeddings", false}};
  // As transformers counts it, with the selection biases that it keeps beside the weights.
  EXPECT_EQ(count(kimi), 1'026'408'232'448);
}

TEST(ModelFamilyFacts, InfinitiesOfPythonAreReadAsNothing) {
  std::string const text = R"({"model_type": "mamba_thing", "limit": [0.0, Infinity], "other": -Infinity, "third": NaN,
                               "text": "Infinity"})";
  EXPECT_TRUE(contains(refused(text), "'mamba_thing' is not one of"));
  std::string known = llama();
  known.insert(1, R"("time_step_limit": [0.0, Infinity], "name": "an \"Infinity\" of NaN", )");
  EXPECT_EQ(refused(known), "");
}

TEST(ModelFamilyFacts, DecodingStandsAtItsContextAlone) {
  Experiment e;
  e.model = parse_model_config(llama(R"({"max_position_embeddings": 2048})"), "m");
  e.phase = PhaseKind::decode;
  e.seq = 1024, e.context = 2047;
  EXPECT_TRUE(warnings(e).empty());
  e.context = 2048;
  ASSERT_EQ(warnings(e).size(), 1u);
  EXPECT_TRUE(contains(warnings(e)[0], "2049 tokens are beyond the 2048 positions"));
}

}  // namespace
}  // namespace shardbench
