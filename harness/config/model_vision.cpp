#include <fmt/format.h>

#include <cmath>

#include "harness/config/model_schemas.hpp"

namespace shardbench {
namespace {

constexpr std::int64_t max_pixels = 65536;

/// What every vision transformer has, once sizes and image are known.
void finish_vit(JsonFields const& fields, VisionConfig const& vision, ModelConfig& model) {
  if (vision.image_size % vision.patch_size != 0)
    fields.fail("image_size",
                fmt::format("{} is not a multiple of patch_size {}", vision.image_size, vision.patch_size));
  model.family = "vit";
  model.vision = vision;
  model.causal = false;
  model.max_positions = model.vision_tokens();
}

std::int64_t read_classes(JsonFields const& fields) {
  JsonValue const* const names = fields.value().find("id2label");
  std::int64_t const labels = names == nullptr ? 0 : static_cast<std::int64_t>(names->members.size());
  return fields.count_or("num_labels", labels);
}

}  // namespace

ModelConfig read_vit(JsonFields const& fields) {
  ModelConfig model;
  model.layers = fields.size("num_hidden_layers", max_layers);
  model.hidden = fields.size("hidden_size");
  model.ffn_hidden = fields.size("intermediate_size");
  read_heads(fields, true, true, model);
  model.norm_eps = static_cast<float>(fields.number_or("layer_norm_eps", 1e-12, 1e-30, 1));
  model.activation = read_activation(fields, "hidden_act", "gelu");
  model.attention_out_bias = model.mlp_bias = true;
  model.qkv_bias = fields.flag_or("qkv_bias", true);
  // Facts of ViT-22B (arXiv 2302.05442): parallel branches behind one norm, normalised queries and keys, norms without
  // bias.
  model.parallel_block = model.parallel_shared_norm = fields.flag_or("parallel_block", false);
  model.qk_norm = fields.flag_or("qk_norm", false);
  model.norm_bias = fields.flag_or("norm_bias", true);
  VisionConfig vision;
  vision.image_size = fields.size("image_size", max_pixels);
  vision.patch_size = fields.size("patch_size", max_pixels);
  vision.channels = fields.size_or("num_channels", 3, 4096);
  vision.class_token = fields.flag_or("class_token", true);
  vision.classes = read_classes(fields);
  finish_vit(fields, vision, model);
  return model;
}

ModelConfig read_open_clip(JsonFields const& outer) {
  std::optional<JsonFields> const tower = outer.object("vision_cfg");
  JsonFields const& fields = *tower;
  ModelConfig model;
  JsonValue const* const layers = fields.value().find("layers");
  if (layers != nullptr && layers->kind == JsonValue::Kind::list)
    fields.fail("layers", "a list of stages (ResNet tower); only transformer towers are known");
  model.layers = fields.size("layers", max_layers);
  model.hidden = fields.size("width");
  model.head_dim = fields.size_or("head_width", 64, max_heads);  // default of open_clip's CLIPVisionCfg
  if (model.hidden % model.head_dim != 0)
    fields.fail("head_width", fmt::format("{} does not divide width {}", model.head_dim, model.hidden));
  model.heads = model.kv_heads = model.hidden / model.head_dim;
  double const ratio = fields.number_or("mlp_ratio", 4.0, 0.01, 1000);  // default of CLIPVisionCfg
  model.ffn_hidden = static_cast<std::int64_t>(static_cast<double>(model.hidden) * ratio);
  if (model.ffn_hidden < 1) fields.fail("mlp_ratio", fmt::format("{} leaves no feed-forward width", ratio));
  if (outer.flag_or("quick_gelu", false)) outer.fail("quick_gelu", "true is not supported (only gelu is)");
  model.activation = ActivationKind::gelu_erf;
  model.qkv_bias = model.attention_out_bias = model.mlp_bias = true;
  VisionConfig vision;
  vision.image_size = fields.size("image_size", max_pixels);
  vision.patch_size = fields.size("patch_size", max_pixels);
  vision.patch_bias = false;
  vision.pre_norm = true;
  vision.projection = outer.size("embed_dim");
  finish_vit(fields, vision, model);
  return model;
}

ModelConfig read_yolo(JsonFields const& fields) {
  for (std::string_view const key : {"depth_multiple", "width_multiple"})
    if (!fields.has(key)) fields.fail(key, "missing (a number from 0.01 to 10)");
  ModelConfig model;
  model.family = "yolo";
  YoloConfig yolo;
  yolo.depth = fields.number_or("depth_multiple", 1, 0.01, 10);
  yolo.width = fields.number_or("width_multiple", 1, 0.01, 10);
  yolo.channel_cap = fields.size("max_channels", 65536);
  yolo.classes = fields.size_or("nc", 80, 65536);
  yolo.image_size = fields.size_or("imgsz", 640, max_pixels);
  if (yolo.image_size % 32 != 0) fields.fail("imgsz", fmt::format("{} is not a multiple of 32", yolo.image_size));
  yolo.deep_everywhere = fields.flag_or("deep_everywhere", false);
  model.yolo = yolo;
  model.causal = false;
  model.position = PositionKind::none;
  model.activation = ActivationKind::silu;
  model.layers = 1;
  return model;
}

}  // namespace shardbench
