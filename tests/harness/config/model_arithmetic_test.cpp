// The fields of a config that change arithmetic and not sizes: rotation, windows, scales; and what is said of the rest.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/rope/rope_math.hpp"
#include "tests/harness/config/model_files.hpp"

namespace shardbench::test {
namespace {

/// A sequence of `length` in a layer of a model: radians a position of pair d.
double frequency(ModelConfig const& m, std::int64_t layer, std::int64_t length, std::int64_t d) {
  std::int64_t const dim = m.mla ? m.mla->qk_rope_head_dim : m.head_dim;
  return rope_frequency(m.rope_rule(layer, length, dim).value(), d, dim);
}

// Sizes, windows and rotations of Gemma 3's config.json files; those of the small models leave the class's defaults
// out.
TEST(Gemma3, LayersWithAWindowRotateByTheirOwnBase) {
  EXPECT_EQ(total("gemma-3-1b"), 999'885'952);
  // The published 4,300,079,472 less the vision tower's 416,866,032 and the projector's 2,950,272.
  EXPECT_EQ(total("gemma-3-4b"), 3'880'263'168);
  ModelConfig const nested = parse_model_config(R"({"model_type": "gemma3", "vision_config": {"hidden_size": 1152},
    "text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "sliding_window": 1024,
    "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}})",
                                                "m");
  ModelConfig const preset = load_model("gemma-3-4b");
  EXPECT_EQ(count_parameters(nested).total, count_parameters(preset).total);
  for (ModelConfig const& m : {nested, preset}) {
    EXPECT_EQ(std::tuple(m.attention_softcap, m.logit_softcap, m.full_attention_step, m.norm_eps),
              std::tuple(0.0f, 0.0f, 6, 1e-6f));
    for (std::int64_t const layer : {0, 4, 5, 6, 11}) {
      bool const full = layer == 5 || layer == 11;
      EXPECT_EQ(m.has_window(layer), !full);
      for (std::int64_t const d : {0, 17, 127}) {
        double const power = -2.0 * static_cast<double>(d) / 256;
        EXPECT_DOUBLE_EQ(frequency(m, layer, 4096, d), full ? std::pow(1e6, power) / 8 : std::pow(1e4, power));
      }
    }
  }
  ASSERT_EQ(nested.notes.size(), 1u);
  EXPECT_TRUE(contains(nested.notes[0].text, "vision_config")) << nested.notes[0].text;
  EXPECT_EQ(load_model("gemma-3-1b").rope.rule.factor, 1);
  EXPECT_NEAR(load_model("gemma-3-27b").attention_scale, 1 / std::sqrt(168.0), 1e-12);
  // Transformers 5 writes the rotations of both kinds of layer, and the kinds, by name.
  ModelConfig const five =
      parse_model_config(R"({"model_type": "gemma3_text", "hidden_size": 64, "intermediate_size": 8,
    "num_hidden_layers": 3, "layer_types": ["full_attention", "sliding_attention", "full_attention"],
    "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1000000.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0}}})",
                         "m");
  EXPECT_TRUE(!five.has_window(0) && five.has_window(1) && !five.has_window(2));
  EXPECT_DOUBLE_EQ(frequency(five, 0, 9, 1), std::pow(1e6, -2.0 / 256) / 4);
  EXPECT_DOUBLE_EQ(frequency(five, 1, 9, 1), std::pow(5e3, -2.0 / 256));
  EXPECT_EQ(five.rope_text(), "rotary base 1e+06, scaling linear 4; layers with a window of 4096: base 5000");
  EXPECT_TRUE(five.notes.empty());
}

// The rules of Transformers' modeling_rope_utils in their own words: by wavelengths (Llama 3.1) and by the pairs
// between two numbers of turns (YaRN).
TEST(RopeScaling, FollowsEachType) {
  ModelConfig const llama3 = load_model("llama3.1-8b");
  for (std::int64_t d = 0; d < 64; ++d) {
    double const plain = std::pow(5e5, -2.0 * static_cast<double>(d) / 128), wavelength = 2 * std::numbers::pi / plain;
    double const smooth = (8192 / wavelength - 1) / 3;
    double const expected = wavelength < 8192.0 / 4 ? plain
                            : wavelength > 8192     ? plain / 8
                                                    : (1 - smooth) * plain / 8 + smooth * plain;
    EXPECT_NEAR(frequency(llama3, 0, 100, d) / expected, 1, 1e-12) << d;
  }
  ModelConfig const v3 = load_model("deepseek-v3"), lite = load_model("deepseek-v2-lite");
  // floor and ceil of 64 ln(4096 / (2 pi beta)) / (2 ln 10000) for beta 32 and 1: 10.5 and 22.5.
  for (std::int64_t d = 0; d < 32; ++d) {
    double const plain = std::pow(1e4, -static_cast<double>(d) / 32);
    double const slowed = std::clamp((static_cast<double>(d) - 10) / 13, 0.0, 1.0);
    EXPECT_NEAR(frequency(v3, 0, 100, d), plain * (1 - slowed) + plain / 40 * slowed, 1e-12) << d;
  }
  EXPECT_EQ(v3.rope.rule.amplitude, 1);
  EXPECT_NEAR(v3.attention_scale, std::pow(0.1 * std::log(40.0) + 1, 2) / std::sqrt(192.0), 1e-9);
  EXPECT_NEAR(lite.attention_scale, std::pow(0.0707 * std::log(40.0) + 1, 2) / std::sqrt(192.0), 1e-9);
  auto const scaled = [](std::string const& scaling) {
    return parse_model_config(llama(R"({"max_position_embeddings": 1000, "rope_scaling": )" + scaling + "}"), "m");
  };
  EXPECT_NEAR(scaled(R"({"type": "yarn", "factor": 4})").rope.rule.amplitude, 0.1 * std::log(4.0) + 1, 1e-6);
  ModelConfig const dynamic = scaled(R"({"type": "dynamic", "factor": 2.0})");
  EXPECT_EQ(dynamic.rope_rule(0, 1000, 16)->theta, 1e4f);
  EXPECT_NEAR(dynamic.rope_rule(0, 3000, 16)->theta, 1e4 * std::pow(2.0 * 3 - 1, 16.0 / 14), 0.1);
  EXPECT_EQ(scaled(R"({"rope_type": "mrope", "mrope_section": [4, 2, 2]})").notes.size(), 0u);
  EXPECT_TRUE(contains(scaled(R"({"rope_type": "longrope", "short_factor": [1]})").notes.at(0).text, "longrope"));
  EXPECT_TRUE(
      contains(refused(llama(R"({"rope_scaling": {"type": "spiral", "factor": 2}})")), "'spiral' is not one of"));
  EXPECT_TRUE(contains(refused(llama(R"({"rope_scaling": {"type": "linear"}})")), "rope_scaling.factor: missing"));
  EXPECT_TRUE(contains(refused(llama(R"({"rope_scaling": {"type": "yarn", "factor": 2}})")),
                       "original_max_position_embeddings: missing"));
}

TEST(ModelConfig, WindowsAreWhereTheFamilysCodeLooks) {
  std::string const sizes = R"("hidden_size": 64, "intermediate_size": 8, "num_hidden_layers": 4, "vocab_size": 9,
    "num_attention_heads": 4, "num_key_value_heads": 4)";
  auto const windows = [&](std::string const& more) {
    ModelConfig const m = parse_model_config("{" + more + ", " + sizes + "}", "m");
    std::string text;
    for (std::int64_t l = 0; l < 4; ++l) text += m.has_window(l) ? 'w' : '.';
    return text;
  };
  EXPECT_EQ(windows(R"("model_type": "mistral")"), "wwww");  // MistralConfig's 4096
  EXPECT_EQ(windows(R"("model_type": "mistral", "sliding_window": null)"), "....");
  EXPECT_EQ(windows(R"("model_type": "phi3")"), "....");
  EXPECT_EQ(windows(R"("model_type": "phi3", "sliding_window": 8)"), "wwww");
  EXPECT_EQ(windows(R"("model_type": "llama", "sliding_window": 8)"), "....");  // noted as unread
  EXPECT_EQ(
      windows(R"("model_type": "qwen2", "sliding_window": 8, "use_sliding_window": true, "max_window_layers": 3)"),
      "...w");
  EXPECT_EQ(windows(R"("model_type": "qwen2", "sliding_window": 8, "use_sliding_window": true, "max_window_layers": 2,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"])"),
            "w.w.");
}

TEST(ModelConfig, Llama4RotatesThreeLayersOfFour) {
  ModelConfig const scout = file("llama-4-scout-nested.json");
  EXPECT_EQ(scout.rope_rule(2, 10, 128)->theta, 5e5f);
  EXPECT_FALSE(scout.rope_rule(3, 10, 128).has_value());
  std::vector<std::int64_t> beyond;
  for (ModelNote const& note : scout.notes) beyond.push_back(note.beyond_positions);
  EXPECT_EQ(beyond, (std::vector<std::int64_t>{8192, 0, 8191, 0}));  // chunks, normed heads, temperature, the tower
}

// Whatever a config asks for is in the step, or said not to be.
TEST(ModelConfig, SaysWhatItDoesNotRead) {
  EXPECT_TRUE(
      parse_model_config(llama(R"({"attention_dropout": 0.0, "torch_dtype": "bfloat16", "use_cache": true})"), "m")
          .notes.empty());
  ModelConfig const m = parse_model_config(
      llama(R"({"attention_dropout": 0.1, "clip_qkv": 8, "sliding_window": 64, "quantization_config": {"bits": 4},
      "rope_scaling": {"type": "linear", "factor": 2, "swing": 3}})"),
      "m");
  ASSERT_EQ(m.notes.size(), 1u);
  for (char const* key :
       {"attention_dropout", "clip_qkv", "sliding_window", "quantization_config", "rope_scaling.swing"})
    EXPECT_TRUE(contains(m.notes[0].text, key)) << m.notes[0].text;
  EXPECT_FALSE(contains(m.notes[0].text, "hidden_size")) << m.notes[0].text;
  for (std::string const& name : preset_names())
    EXPECT_EQ(load_model(name).notes.size(), name == "phi-3.5-mini" ? 1u : 0u) << name;  // longrope
}

}  // namespace
}  // namespace shardbench::test
