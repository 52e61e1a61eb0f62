// Rotary positions of a config: rope_theta with rope_scaling, or rope_parameters, which has both (Transformers 5). The
// rules of each rope_type are those of Transformers' modeling_rope_utils.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "harness/config/field_text.hpp"
#include "harness/config/model_schemas.hpp"

namespace shardbench {
namespace {

constexpr double max_theta = 1e12;
constexpr double max_factor = 1e6;

double factor_of(JsonFields const& scaling) {
  if (!scaling.has("factor")) scaling.fail("factor", "missing (a number from 1)");
  return scaling.number_or("factor", 1, 1, max_factor);
}

std::int64_t trained_positions(JsonFields const& scaling, ModelConfig const& model) {
  std::int64_t const trained = scaling.size_or("original_max_position_embeddings", model.max_positions, max_tokens);
  if (trained == 0) scaling.fail("original_max_position_embeddings", "missing, and so is max_position_embeddings");
  return trained;
}

/// Pairs of few turns over the trained length are slowed, those of many are not.
void read_llama3(JsonFields const& scaling, ModelConfig const& model, RopeConfig& rope) {
  double const turn = 2 * std::numbers::pi / static_cast<double>(trained_positions(scaling, model));
  double const low = scaling.number_or("low_freq_factor", 1, 1e-6, max_factor),
               high = scaling.number_or("high_freq_factor", 4, 1e-6, max_factor);
  // Equal ones leave no band between slowed pairs and the others (Llama 4 Scout).
  if (high < low) scaling.fail("high_freq_factor", fmt::format("{} is below low_freq_factor {}", high, low));
  rope.rule.ramp = RopeRamp::frequency;
  rope.rule.begin = high * turn, rope.rule.end = low * turn;
}

/// YaRN's growth of the scores with the factor, in the form of DeepSeek-V2's mscale.
double growth(double factor, double mscale) { return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1; }

void read_yarn(JsonFields const& scaling, std::int64_t rotary_dim, ModelConfig& model, RopeConfig& rope) {
  double const dim = static_cast<double>(rotary_dim), theta = static_cast<double>(rope.rule.theta);
  if (theta <= 1) scaling.fail("rope_type", fmt::format("yarn needs a base above 1, {} given", theta));
  double const trained = static_cast<double>(trained_positions(scaling, model)), factor = rope.rule.factor;
  auto const pair_of = [&](double turns) {
    return dim * std::log(trained / (turns * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  double low = pair_of(scaling.number_or("beta_fast", 32, 1e-6, max_factor)),
         high = pair_of(scaling.number_or("beta_slow", 1, 1e-6, max_factor));
  if (scaling.flag_or("truncate", true)) low = std::floor(low), high = std::ceil(high);
  rope.rule.begin = std::max(low, 0.0), rope.rule.end = std::min(high, dim - 1);
  if (rope.rule.begin == rope.rule.end) rope.rule.end += 0.001;
  double const mscale = scaling.number_or("mscale", 0, 0, 1e3), all = scaling.number_or("mscale_all_dim", 0, 0, 1e3);
  double const usual = mscale > 0 && all > 0 ? growth(factor, mscale) / growth(factor, all) : growth(factor, 1);
  rope.rule.amplitude = static_cast<float>(scaling.number_or("attention_factor", usual, 1e-6, 1e6));
  if (model.mla && all > 0)  // DeepSeek's attention scales its scores by the square besides
    model.attention_scale = std::pow(growth(factor, all), 2) / std::sqrt(static_cast<double>(model.head_dim));
  if (scaling.number_or("llama_4_scaling_beta", 0, 0, 1e3) > 0)
    model.notes.push_back(
        {"llama_4_scaling_beta: queries are not scaled by their position", trained_positions(scaling, model)});
}

/// One set of rotary parameters; `scaling` may say the base too.
RopeConfig read_parameters(JsonFields const& scaling, double theta, std::int64_t rotary_dim, ModelConfig& model) {
  RopeConfig rope;
  rope.rule.theta = static_cast<float>(scaling.number_or("rope_theta", theta, 1, max_theta));
  rope.scaling = scaling.text_or(scaling.any_of({"rope_type", "type"}), "default");
  if (rope.scaling == "default" || rope.scaling == "mrope") {  // text has one position for mrope's three sections
    rope.scaling = "default";
    scaling.counts("mrope_section", max_heads);
    return rope;
  }
  if (rope.scaling == "longrope" || rope.scaling == "su") {
    model.notes.push_back(
        {fmt::format("rope_scaling: {} is left out, heads rotate by base {:g} alone; FLOPs, bytes and "
                     "times are those of the model",
                     rope.scaling, rope.rule.theta)});
    for (std::string_view const key : {"short_factor", "long_factor", "original_max_position_embeddings", "factor",
                                       "attention_factor", "short_mscale", "long_mscale"})
      scaling.has(key);
    rope.scaling = "default";
    return rope;
  }
  double const factor = factor_of(scaling);
  if (rope.scaling == "dynamic") {
    // Transformers grows the base from max_position_embeddings on, whatever the length that was trained first.
    scaling.has("original_max_position_embeddings");
    if (model.max_positions == 0) scaling.fail("rope_type", "dynamic needs max_position_embeddings, which is missing");
    rope.dynamic_factor = factor, rope.trained = model.max_positions;
    return rope;
  }
  rope.rule.factor = factor;
  if (rope.scaling == "llama3")
    read_llama3(scaling, model, rope);
  else if (rope.scaling == "yarn")
    read_yarn(scaling, rotary_dim, model, rope);
  else if (rope.scaling != "linear")
    scaling.fail("rope_type", fmt::format("{} is not one of default, mrope, linear, dynamic, llama3, yarn, longrope",
                                          in_quotes(rope.scaling)));
  return rope;
}

}  // namespace

double read_rotary_share(JsonFields const& fields, std::string_view key, double usual, double least) {
  std::optional<JsonFields> const parameters = fields.object("rope_parameters");
  double const within = parameters ? parameters->number_or("partial_rotary_factor", usual, least, 1) : usual;
  return fields.number_or(key, within, least, 1);
}

void read_rope(JsonFields const& fields, std::string_view theta_key, double default_theta, ModelConfig& model) {
  model.position = PositionKind::rope;
  double const theta = fields.number_or(theta_key, default_theta, 1, max_theta);
  std::int64_t const rotary_dim =
      model.mla ? model.mla->qk_rope_head_dim
                : static_cast<std::int64_t>(model.rotary_fraction * static_cast<double>(model.head_dim));
  model.rope.rule.theta = static_cast<float>(theta);
  std::optional<JsonFields> const given = fields.object(fields.any_of({"rope_parameters", "rope_scaling"}));
  if (!given) return;
  fields.has("original_max_position_embeddings");  // Phi-3 has it here, for longrope
  std::optional<JsonFields> const full = given->object("full_attention"), local = given->object("sliding_attention");
  if (local) model.local_rope = read_parameters(*local, theta, rotary_dim, model);
  if (full || !local) model.rope = read_parameters(full ? *full : *given, theta, rotary_dim, model);
}

void read_local_rope(JsonFields const& fields, double default_theta, ModelConfig& model) {
  if (model.local_rope) return;
  model.local_rope.emplace();
  model.local_rope->rule.theta =
      static_cast<float>(fields.number_or("rope_local_base_freq", default_theta, 1, max_theta));
}

}  // namespace shardbench
