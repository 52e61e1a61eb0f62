// What differs from layer to layer: experts, windows, rotation.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/config/model_config.hpp"

namespace shardbench {
namespace {

/// Every `step`-th layer counted from one, and those listed.
bool among(std::int64_t layer, std::int64_t step, std::vector<std::int64_t> const& listed) {
  return (step > 0 && (layer + 1) % step == 0) || std::find(listed.begin(), listed.end(), layer) != listed.end();
}

std::string text_of(RopeConfig const& rope) {
  std::string text = fmt::format("base {:g}", rope.rule.theta);
  double const factor = rope.dynamic_factor > 0 ? rope.dynamic_factor : rope.rule.factor;
  if (rope.scaling != "default") text += fmt::format(", scaling {} {:g}", rope.scaling, factor);
  if (rope.rule.amplitude != 1) text += fmt::format(" times {:g}", rope.rule.amplitude);
  return text;
}

}  // namespace

bool ModelConfig::is_moe_layer(std::int64_t layer) const {
  if (layer >= layers) return moe.has_value();  // of a prediction layer
  if (!moe || layer < moe->first_dense_layers || (layer - moe->first_dense_layers) % moe->layer_step != 0) return false;
  return std::find(moe->dense_layers.begin(), moe->dense_layers.end(), layer) == moe->dense_layers.end();
}

bool ModelConfig::has_window(std::int64_t layer) const {
  return sliding_window > 0 && !among(layer, full_attention_step, full_attention_layers);
}

std::optional<RopeRule> ModelConfig::rope_rule(std::int64_t layer, std::int64_t length, std::int64_t rotary_dim) const {
  if (position != PositionKind::rope || among(layer, unrotated_step, unrotated_layers)) return std::nullopt;
  RopeConfig const& chosen = local_rope && has_window(layer) ? *local_rope : rope;
  RopeRule rule = chosen.rule;
  if (chosen.dynamic_factor > 0 && length > chosen.trained) {
    double const dim = static_cast<double>(rotary_dim),
                 share = static_cast<double>(length) / static_cast<double>(chosen.trained);
    double const growth = chosen.dynamic_factor * share - (chosen.dynamic_factor - 1);
    rule.theta *= static_cast<float>(std::pow(growth, dim / std::max(dim - 2, 1.0)));
  }
  return rule;
}

std::string ModelConfig::rope_text() const {
  if (position != PositionKind::rope) return {};
  std::string text = "rotary " + text_of(rope);
  if (local_rope) text += fmt::format("; layers with a window of {}: {}", sliding_window, text_of(*local_rope));
  if (rotary_fraction < 1) text += fmt::format("; {:g} of each head rotates", rotary_fraction);
  if (unrotated_step > 0) text += fmt::format("; none in every {}th layer", unrotated_step);
  if (!unrotated_layers.empty()) text += fmt::format("; none in {} layers", unrotated_layers.size());
  return text;
}

}  // namespace shardbench
