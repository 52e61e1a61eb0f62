#include "harness/config/model_config.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/core/error.hpp"
#include "tests/harness/config/model_files.hpp"

namespace shardbench {
namespace {

using test::contains;

using test::data, test::file, test::llama, test::refused, test::total;

TEST(ModelConfig, EveryExpectedCountIsExact) {
  nlohmann::json const expected = nlohmann::json::parse(std::ifstream(data + "expected_params.json"));
  ASSERT_EQ(expected["counts"].size(), 25u);
  for (auto const& [name, entry] : expected["counts"].items()) {
    ParameterCount const count = count_parameters(file(name + ".json"));
    EXPECT_EQ(count.total, entry["params"].get<std::int64_t>()) << name;
    EXPECT_EQ(count.total, count.embedding + count.head + count.blocks + count.norms) << name;
  }
}

TEST(ModelConfig, PresetsHaveTheFactsOfTheFiles) {
  std::pair<char const*, char const*> const pairs[] = {{"gpt2", "gpt2"},
                                                       {"gpt2-medium", "gpt2-medium"},
                                                       {"gpt2-xl", "gpt2-xl"},
                                                       {"smollm-360m", "smollm-360m"},
                                                       {"llama3.1-8b", "llama-3.1-8b"},
                                                       {"llama3.1-70b", "llama-3.1-70b"},
                                                       {"llama3.1-405b", "llama-3.1-405b"},
                                                       {"mistral-7b", "mistral-7b-v0.1"},
                                                       {"mixtral-8x7b", "mixtral-8x7b-v0.1"},
                                                       {"qwen2-7b", "qwen2-7b"},
                                                       {"qwen3-0.6b", "qwen3-0.6b"},
                                                       {"qwen3-4b", "qwen3-4b"},
                                                       {"qwen3-8b", "qwen3-8b"},
                                                       {"qwen3-32b", "qwen3-32b"},
                                                       {"qwen3-30b-a3b", "qwen3-30b-a3b"},
                                                       {"qwen1.5-moe-a2.7b", "qwen1.5-moe-a2.7b"},
                                                       {"gemma-2-2b", "gemma-2-2b"},
                                                       {"gemma-2-9b", "gemma-2-9b"},
                                                       {"phi-3-medium-14b", "phi-3-medium-14b"},
                                                       {"phi-3.5-mini", "phi-3.5-mini"},
                                                       {"gpt-neox-20b", "gpt-neox-20b"},
                                                       {"gpt-bigcode", "gpt-bigcode"},
                                                       {"deepseek-v2-lite", "deepseek-v2-lite"},
                                                       {"deepseek-v2", "deepseek-v2"},
                                                       {"deepseek-v3", "deepseek-v3"},
                                                       {"vit-h", "vit-huge-patch14-224"},
                                                       {"vit-g", "openclip-ViT-g-14"},
                                                       {"vit-bigg", "openclip-ViT-bigG-14"}};
  for (auto const& [preset, name] : pairs) {
    ModelConfig const a = load_model(preset), b = file(std::string(name) + ".json");
    EXPECT_EQ(count_parameters(a).total, count_parameters(b).total) << preset;
    EXPECT_EQ(
        std::tuple(a.layers, a.hidden, a.heads, a.kv_heads, a.head_dim, a.max_positions, a.rope.rule.theta, a.norm_eps),
        std::tuple(b.layers, b.hidden, b.heads, b.kv_heads, b.head_dim, b.max_positions, b.rope.rule.theta, b.norm_eps))
        << preset;
    EXPECT_EQ(a.name, preset);
  }
  for (std::string const& name : preset_names()) EXPECT_GT(total(name), 1'000'000) << name;
}

TEST(ModelConfig, MegatronSizesMatchTheirNames) {
  // Billions as SC'21 Table 1 prints them; 12Lh^2 (1 + 13/(12h) + (V+s)/(12Lh)) plus the final norm, exactly.
  std::tuple<char const*, double, std::int64_t, std::int64_t> const sizes[] = {
      {"1.7b", 1.7, 24, 2304},    {"3.6b", 3.6, 30, 3072},    {"7.5b", 7.5, 36, 4096},     {"18b", 18.4, 40, 6144},
      {"22b", 22, 48, 6144},      {"39b", 39.1, 48, 8192},    {"76b", 76.1, 60, 10240},    {"145b", 145.6, 80, 12288},
      {"175b", 174.6, 96, 12288}, {"310b", 310.1, 96, 16384}, {"530b", 529.6, 105, 20480}, {"1t", 1008.0, 128, 25600}};
  for (auto const& [name, billions, layers, h] : sizes) {
    std::int64_t const count = total(std::string("megatron-") + name);
    EXPECT_EQ(count, 12 * layers * h * h + 13 * layers * h + (51200 + 2048) * h + 2 * h) << name;
    EXPECT_NEAR(static_cast<double>(count) / 1e9, billions, 0.06 + 0.005 * billions) << name;
  }
  EXPECT_EQ(total("gpt3-175b"), 12LL * 96 * 12288 * 12288 + 13LL * 96 * 12288 + (50257LL + 2048) * 12288 + 2 * 12288);
}

TEST(ModelConfig, SizeTableNeedsASize) {
  ModelConfig const model = read_model_config(data + "megatron-22b-175b-530b-1t.json:22B");
  EXPECT_EQ(model.layers, 48);
  EXPECT_EQ(count_parameters(model).total, total("megatron-22b"));
  try {
    file("megatron-22b-175b-530b-1t.json");
    FAIL();
  } catch (InputError const& error) {
    EXPECT_TRUE(contains(error.what(), "22B, 175B, 530B, 1T")) << error.what();
  }
  EXPECT_THROW(read_model_config(data + "megatron-22b-175b-530b-1t.json:23B"), InputError);
}

TEST(ModelConfig, FalconSharesOneNormOrHasTwo) {
  // 65024h + 32 (h (h + 2*64) + h^2 + 8h^2 + 2h) + 2h with h = 4544; the 40B has 8 kv heads of 64 and two norms a
  // block.
  EXPECT_EQ(total("falcon-7b"), 6'921'720'704);
  EXPECT_EQ(total("falcon-40b"), 41'303'293'952);
  ModelConfig const small = load_model("falcon-7b"), large = load_model("falcon-40b");
  EXPECT_TRUE(small.parallel_block && small.parallel_shared_norm && large.parallel_block);
  EXPECT_FALSE(large.parallel_shared_norm);
  EXPECT_EQ(std::tuple(small.kv_heads, large.kv_heads, small.head_dim), std::tuple(1, 8, 64));
  EXPECT_TRUE(contains(refused(R"({"model_type": "falcon", "alibi": true})"), "alibi"));
}

TEST(ModelConfig, VisionTransformers) {
  EXPECT_EQ(total("vit-l"), 303'301'632);  // ViT-L/16 without its head
  EXPECT_EQ(total("vit-h"), 630'764'800);
  EXPECT_EQ(total("vit-bigg"), 1'844'907'264);  // open_clip lists 1844.91 M for the image tower
  EXPECT_NEAR(static_cast<double>(total("vit-g")) / 1e6, 1012.65, 0.01);
  EXPECT_NEAR(static_cast<double>(total("vit-22b")) / 1e9, 21.743, 0.02);
  EXPECT_FALSE(load_model("vit-l").causal);
  EXPECT_EQ(load_model("vit-22b").vision_tokens(), 256);
}

TEST(Cases, C01_ExplicitHeadDim) {
  EXPECT_EQ(file("qwen3-32b.json").query_width(), 8192);
  EXPECT_EQ(file("qwen3-4b.json").query_width(), 4096);
  EXPECT_EQ(total(data + "qwen3-32b.json"), 32'762'123'264);
  EXPECT_EQ(total(data + "qwen3-4b.json"), 4'022'468'096);
  EXPECT_TRUE(contains(refused(R"({"model_type": "qwen3", "hidden_size": 2560, "num_hidden_layers": 1, "vocab_size": 9,
    "intermediate_size": 1, "num_attention_heads": 32, "num_key_value_heads": 8})"),
                       "head_dim: missing"));
}

TEST(Cases, C04_NestedLanguagePart) {
  ModelConfig const ministral = file("ministral-3-3b-nested.json");
  EXPECT_EQ(std::tuple(ministral.hidden, ministral.layers, ministral.heads, ministral.kv_heads, ministral.vocab),
            std::tuple(3072, 26, 32, 8, 131072));
  EXPECT_TRUE(ministral.tied_embeddings);
  ModelConfig const scout = file("llama-4-scout-nested.json");
  EXPECT_EQ(std::tuple(scout.hidden, scout.layers, scout.heads, scout.moe->experts), std::tuple(5120, 48, 40, 16));
  EXPECT_NEAR(static_cast<double>(count_parameters(scout).total) / 1e9, 107.77, 0.01);
  ModelConfig const qwen = file("qwen2.5-vl-3b-mixed-nesting.json");
  EXPECT_EQ(std::tuple(qwen.hidden, qwen.layers, qwen.heads, qwen.vision_heads), std::tuple(2048, 36, 16, 16));
  std::string const empty =
      refused(R"({"model_type": "ministral3", "text_config": {}, "vision_config": {"hidden_size": 9}})");
  EXPECT_TRUE(contains(empty, "config.json: text_config.num_hidden_layers: missing")) << empty;
}

TEST(Cases, C07_ExpertCountNames) {
  EXPECT_EQ(file("mixtral-8x7b-v0.1.json").moe->experts, 8);
  EXPECT_EQ(file("qwen3-30b-a3b.json").moe->experts, 128);
  EXPECT_EQ(file("deepseek-v3.json").moe->experts, 256);
  EXPECT_EQ(file("qwen1.5-moe-a2.7b.json").moe->experts, 60);
  EXPECT_TRUE(contains(refused(R"({"model_type": "mixtral", "hidden_size": 8, "num_hidden_layers": 1, "vocab_size": 9,
    "intermediate_size": 1, "num_attention_heads": 2, "num_key_value_heads": 2})"),
                       "num_local_experts: missing"));
  // 3.3 of 30.5 billion are active in Qwen3-30B-A3B, 37 of 671 in DeepSeek-V3, as their names and cards say.
  EXPECT_NEAR(static_cast<double>(count_parameters(load_model("qwen3-30b-a3b")).active) / 1e9, 3.3, 0.1);
  EXPECT_NEAR(static_cast<double>(count_parameters(load_model("deepseek-v3")).active) / 1e9, 37, 0.7);
}

TEST(Cases, C10_Llama65bLint) {
  auto const count = [](int ffn) {
    return count_parameters(
               parse_model_config(llama(R"({"hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
      "vocab_size": 32000, "intermediate_size": )" +
                                        std::to_string(ffn) + "}"),
                                  "65b"))
        .total;
  };
  EXPECT_EQ(count(22016), 65'285'660'672);
  EXPECT_NEAR(static_cast<double>(count(32768)) / 1e9, 86.42, 0.01);
}

TEST(Cases, C12_OpenClipTowers) {
  ModelConfig const g = file("openclip-ViT-g-14.json"), big = file("openclip-ViT-bigG-14.json");
  EXPECT_EQ(std::tuple(g.heads, g.ffn_hidden, g.vision_tokens()), std::tuple(16, 6144, 257));
  EXPECT_EQ(std::tuple(big.heads, big.ffn_hidden, big.vision_tokens()), std::tuple(16, 8192, 257));
}

TEST(Cases, E04_WhichLayersAreMoe) {
  auto const moe_layers = [](ModelConfig const& model) {
    std::int64_t n = 0;
    for (std::int64_t i = 0; i < model.layers; ++i) n += model.is_moe_layer(i);
    return n;
  };
  ModelConfig const v3 = load_model("deepseek-v3"), v2 = load_model("deepseek-v2");
  EXPECT_EQ(moe_layers(v3), 58);
  EXPECT_FALSE(v3.is_moe_layer(2));
  EXPECT_TRUE(v3.is_moe_layer(3));
  EXPECT_EQ(moe_layers(v2), 59);
  EXPECT_EQ(std::tuple(v2.moe->experts, v2.moe->shared_ffn_hidden / v2.moe->ffn_hidden), std::tuple(160, 2));
  EXPECT_EQ(moe_layers(load_model("qwen3-30b-a3b")), 48);
  EXPECT_EQ(count_parameters(v3).total, 671'026'419'200);
  EXPECT_EQ(count_parameters(v2).total, 235'741'434'880);
  EXPECT_EQ(count_parameters(load_model("qwen3-30b-a3b")).total, 30'532'122'624);
  // One MoE layer more adds its experts, its router, attention and norms.
  ModelConfig one_less = v3;
  one_less.layers = 60;
  std::int64_t const attention =
      7168LL * 1536 + 1536 + 1536LL * 128 * 192 + 7168LL * 576 + 512 + 512LL * 128 * 256 + 128LL * 128 * 7168;
  EXPECT_EQ(count_parameters(v3).total - count_parameters(one_less).total, 11'320'164'608 + attention + 2 * 7168);
  EXPECT_GT(count_parameters(v3).mtp, 11'320'164'608);
}

TEST(ModelConfig, SparseSteps) {
  ModelConfig const model = parse_model_config(R"({"model_type": "qwen3_moe", "hidden_size": 64, "num_hidden_layers": 6,
    "vocab_size": 9, "intermediate_size": 8, "moe_intermediate_size": 4, "num_experts": 4, "num_experts_per_tok": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "decoder_sparse_step": 2, "mlp_only_layers": [3, 77]})",
                                               "m");
  // Hugging Face: MoE where (layer + 1) % step == 0 and the layer is not listed.
  std::vector<bool> const expected{false, true, false, false, false, true};
  for (std::int64_t i = 0; i < 6; ++i) EXPECT_EQ(model.is_moe_layer(i), expected[static_cast<std::size_t>(i)]) << i;
}

TEST(Cases, M09_NormsAreCountedTwicePerLayer) {
  ParameterCount const count = count_parameters(load_model("llama3.1-8b"));
  EXPECT_EQ(count.norms, 266'240);
  EXPECT_EQ(count.total, 8'030'261'248);
}

TEST(ModelConfig, DocumentedDefaultsOnly) {
  ModelConfig const model = parse_model_config(llama(), "m");
  EXPECT_EQ(std::tuple(model.kv_heads, model.head_dim, model.tied_embeddings), std::tuple(4, 16, false));
  EXPECT_TRUE(load_model("gpt2").tied_embeddings);
  EXPECT_EQ(load_model("gpt2-xl").ffn_hidden, 6400);
  EXPECT_EQ(load_model("gpt-bigcode").kv_heads, 1);
  EXPECT_TRUE(load_model("gemma-2-2b").tied_embeddings);
  EXPECT_EQ(load_model("gemma-2-9b").full_attention_step, 2);
  EXPECT_EQ(load_model("mistral-7b").full_attention_step, 0);
  EXPECT_EQ(load_model("qwen2-7b").sliding_window, 0);  // use_sliding_window is false
  EXPECT_EQ(load_model("mistral-7b").sliding_window, 4096);
  for (char const* key :
       {"hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size", "num_attention_heads", "model_type"}) {
    std::string const message = refused(llama("", key));
    EXPECT_TRUE(contains(message, std::string("config.json: ") + key + ": missing")) << message;
  }
}

TEST(ModelConfig, RefusesWithFileAndKey) {
  std::pair<std::string, std::string> const cases[] = {
      {llama(R"({"hidden_size": 0})"), "hidden_size: 0 is not an integer from 1"},
      {llama(R"({"hidden_size": -64})"), "hidden_size: -64"},
      {llama(R"({"hidden_size": 64.5})"), "hidden_size: 64.5"},
      {llama(R"({"hidden_size": "64"})"), "hidden_size: '64'"},
      {llama(R"({"hidden_size": true})"), "hidden_size: true"},
      {llama(R"({"hidden_size": [64]})"), "hidden_size: a list"},
      {llama(R"({"hidden_size": 99999999999999999999})"), "hidden_size: 1e+20"},
      {llama(R"({"num_hidden_layers": 1000000000})"), "num_hidden_layers: 1000000000"},
      {llama(R"({"num_attention_heads": 5})"), "head_dim: missing"},
      {llama(R"({"num_key_value_heads": 3})"), "num_key_value_heads: 3 does not divide"},
      {llama(R"({"hidden_act": "mish"})"), "hidden_act: 'mish'"},
      {llama(R"({"rms_norm_eps": -1})"), "rms_norm_eps: -1"},
      {llama(R"({"tie_word_embeddings": 1})"), "tie_word_embeddings: 1"},
      {llama(R"({"model_type": "frog"})"), "model_type: 'frog' is not one of"},
      {llama(R"({"hidden_size": 16777216, "intermediate_size": 16777216, "num_hidden_layers": 10000, "head_dim": 8})"),
       "at most 1e15"},
      {"", "not JSON"},
      {"{", "line 1, column"},
      {"{\n\"a\": nan}", "line 2"},
      {"{\n\"a\": NaN}", "model_type: missing"},  // as Python writes it
      {"[1]", "an object is needed"},
      {R"({"a": 1, "a": 2})", "appears twice"},
      {R"({"a": 1e999})", "not JSON"},
      {R"({"text_config": 3})", "text_config is 3"},
      {std::string(100000, '['), "nested deeper than 64"},
      {R"({"vision_cfg": {"layers": [1, 2], "width": 64}})", "layers: a list of stages"},
      {"{\"model_type\": \"a\\nb\"}", "'a\\x0ab'"}};
  for (auto const& [json, part] : cases) {
    std::string const message = refused(json);
    EXPECT_TRUE(contains(message, part)) << json.substr(0, 200) << " -> " << message;
    EXPECT_EQ(message.find("config.json"), 0u) << message;
    EXPECT_EQ(message.find('\n'), message.npos) << message;
  }
}

TEST(ModelConfig, UnknownNameListsPresets) {
  try {
    load_model("gpt2-xxl");
    FAIL();
  } catch (InputError const& error) {
    EXPECT_TRUE(contains(error.what(), "did you mean gpt2-xl?")) << error.what();
    EXPECT_TRUE(contains(error.what(), "mixtral-8x7b")) << error.what();
  }
  EXPECT_THROW(load_model("nowhere/config.json"), InputError);
  EXPECT_THROW(load_model(""), InputError);
  EXPECT_THROW(load_model("/"), InputError);
}

}  // namespace
}  // namespace shardbench
