// Names and layouts of vision checkpoints: ViT as transformers has it, towers as open_clip has them, and detectors
// under the program's own names.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/checkpoint/part_layout.hpp"
#include "harness/checkpoint/section_key.hpp"
#include "harness/config/yolo.hpp"

namespace shardbench {
namespace {

using namespace part_layout;
using Names = std::map<std::string_view, std::string_view>;

/// A convolution's weight: columns are (tap, channel) here and (channel, tap) there.
StoredPart convolution(std::string name, std::int64_t outputs, std::int64_t channels, std::int64_t kernel) {
  std::int64_t const taps = kernel * kernel;
  StoredPart part{std::move(name), {outputs, channels, kernel, kernel}, series(outputs, channels * taps), {}};
  for (std::int64_t t = 0; t < taps; ++t)
    for (std::int64_t c = 0; c < channels; ++c) part.cols.push_back(c * taps + t);
  return part;
}

std::optional<StoredPart> outer_vit(ModelConfig const& m, SectionKey const& key) {
  VisionConfig const& v = *m.vision;
  std::int64_t const h = m.hidden, n = m.vision_tokens();
  std::string const patches = "vit.embeddings.patch_embeddings.projection.";
  if (key.part == "embedding.patch")
    return key.bias ? vector(patches + "bias", h) : convolution(patches + "weight", h, v.channels, v.patch_size);
  if (key.part == "embedding.class") return StoredPart{"vit.embeddings.cls_token", {1, 1, h}, {0}, series(h)};
  if (key.part == "embedding.position")
    return StoredPart{"vit.embeddings.position_embeddings", {1, n, h}, series(n, h), series(h)};
  if (key.part == "final_norm") return vector(fmt::format("vit.layernorm.{}", key.suffix()), h);
  if (key.part == "head")
    return rows_of(fmt::format("classifier.{}", key.suffix()), series(v.classes), v.classes, h, key.bias);
  return std::nullopt;
}

std::optional<StoredPart> outer_clip(ModelConfig const& m, SectionKey const& key) {
  VisionConfig const& v = *m.vision;
  std::int64_t const h = m.hidden, n = m.vision_tokens();
  if (key.part == "embedding.patch") return convolution("visual.conv1.weight", h, v.channels, v.patch_size);
  if (key.part == "embedding.class") return StoredPart{"visual.class_embedding", {h}, {0}, series(h)};
  if (key.part == "embedding.position") return matrix("visual.positional_embedding", n, h);
  if (key.part == "pre_norm") return vector(fmt::format("visual.ln_pre.{}", key.suffix()), h);
  if (key.part == "final_norm") return vector(fmt::format("visual.ln_post.{}", key.suffix()), h);
  if (key.part == "projection") return columns_of("visual.proj", series(v.projection), v.projection, h, false);
  return std::nullopt;
}

/// Packed queries, keys and values of a tower.
StoredPart packed_clip(ModelConfig const& m, SectionKey const& key, std::string const& layer) {
  std::int64_t const q = m.query_width(), h = m.hidden,
                     begin = key.part.back() == 'q'   ? 0
                             : key.part.back() == 'k' ? q
                                                      : 2 * q;
  return rows_of(fmt::format("{}attn.in_proj_{}", layer, key.suffix()), series(q, 1, begin), 3 * q, h, key.bias);
}

Names const& layer_names(bool clip) {
  static Names const tower{{"norm1", "ln_1"},
                           {"norm2", "ln_2"},
                           {"attention.out", "attn.out_proj"},
                           {"mlp.up", "mlp.c_fc"},
                           {"mlp.down", "mlp.c_proj"}};
  static Names const vit{{"norm1", "layernorm_before"},
                         {"norm2", "layernorm_after"},
                         {"attention.qkv.q", "attention.attention.query"},
                         {"attention.qkv.k", "attention.attention.key"},
                         {"attention.qkv.v", "attention.attention.value"},
                         {"attention.q_norm", "attention.attention.q_norm"},  // ViT-22B's, which transformers has not
                         {"attention.k_norm", "attention.attention.k_norm"},
                         {"attention.out", "attention.output.dense"},
                         {"mlp.up", "intermediate.dense"},
                         {"mlp.down", "output.dense"}};
  return clip ? tower : vit;
}

}  // namespace

std::optional<StoredPart> stored_vision(ModelConfig const& m, SectionKey const& key) {
  bool const clip = m.vision->pre_norm;
  if (key.layer < 0) return clip ? outer_clip(m, key) : outer_vit(m, key);
  std::string const layer =
      fmt::format("{}.{}.", clip ? "visual.transformer.resblocks" : "vit.encoder.layer", key.layer);
  if (clip && key.part.starts_with("attention.qkv.")) return packed_clip(m, key, layer);
  auto const found = layer_names(clip).find(key.part);
  if (found == layer_names(clip).end()) return std::nullopt;
  std::string const name = fmt::format("{}{}.{}", layer, found->second, key.suffix());
  std::int64_t const h = m.hidden;
  if (key.part.ends_with("_norm")) return vector(name, m.head_dim);
  if (key.part.starts_with("norm")) return vector(name, h);
  bool const up = key.part == "mlp.up", down = key.part == "mlp.down", out = key.part == "attention.out";
  std::int64_t const outputs = up ? m.ffn_hidden : down || out ? h : m.query_width();
  std::int64_t const inputs = down ? m.ffn_hidden : out ? m.query_width() : h;
  return rows_of(name, series(outputs), outputs, inputs, key.bias);
}

std::optional<StoredPart> stored_yolo(ModelConfig const& m, SectionKey const& key) {
  bool const norm = key.part.ends_with(".norm");
  std::string const layer = norm ? key.part.substr(0, key.part.size() - 5) : key.part;
  for (YoloBlock const& block : yolo_blocks(*m.yolo)) {
    auto const found = std::ranges::find(block.convs, layer, &ConvLayer::name);
    if (found == block.convs.end()) continue;
    std::string const name = fmt::format("{}.{}", key.part, key.suffix());
    if (norm || key.bias) return vector(name, found->out);
    if (found->groups == 1) return convolution(name, found->out, found->in, found->kernel);
    // Depthwise: rows are taps here.
    std::int64_t const taps = found->kernel * found->kernel;
    return StoredPart{name, {found->out, 1, found->kernel, found->kernel}, series(taps), series(found->out, taps)};
  }
  return std::nullopt;
}

}  // namespace shardbench
