#pragma once
// Models and experiments small enough to run every cut of them in a blink, with a vocabulary that needs padding.
#include "harness/config/experiment.hpp"
#include "harness/config/model_config.hpp"
#include "harness/config/yolo.hpp"

namespace shardbench::test {

/// GPT-2's architecture: LayerNorm, GELU, learned positions, biases, tied head.
inline ModelConfig small_gpt(std::int64_t layers = 4) {
  ModelConfig m;
  m.name = "small-gpt";
  m.family = "gpt";
  m.layers = layers;
  m.hidden = 64;
  m.ffn_hidden = 128;
  m.heads = m.kv_heads = 8;
  m.head_dim = 8;
  m.vocab = 300;
  m.max_positions = 16;
  m.qkv_bias = m.attention_out_bias = m.mlp_bias = true;
  m.tied_embeddings = true;
  return m;
}

/// Llama's architecture: RMSNorm, RoPE, fewer KV heads than query heads, SwiGLU, a head of its own.
inline ModelConfig small_llama(std::int64_t layers = 4, std::int64_t heads = 8, std::int64_t kv_heads = 2) {
  ModelConfig m;
  m.name = "small-llama";
  m.family = "llama";
  m.layers = layers;
  m.hidden = 64;
  m.ffn_hidden = 128;
  m.heads = heads;
  m.kv_heads = kv_heads;
  m.head_dim = 64 / heads;
  m.vocab = 300;
  m.max_positions = 64;
  m.norm = NormKind::rms_norm;
  m.norm_bias = false;
  m.activation = ActivationKind::silu;
  m.gated_mlp = true;
  m.position = PositionKind::rope;
  return m;
}

/// Qwen3: each query and key head normed by itself.
inline ModelConfig small_qwen3(std::int64_t layers = 4) {
  ModelConfig m = small_llama(layers);
  m.name = "small-qwen3";
  m.head_dim = 16;  // not hidden / heads
  m.qk_norm = true;
  return m;
}

/// Gemma 2: norms after the branches, weights stored as offsets from one, scaled embeddings, soft caps on scores and
/// logits, every second layer windowed, a score scale of its own, a tied head.
inline ModelConfig small_gemma2(std::int64_t layers = 4) {
  ModelConfig m = small_llama(layers, 8, 4);
  m.name = "small-gemma2";
  m.family = "gemma";
  m.norm_weight_offset = 1;
  m.post_norms = true;
  m.activation = ActivationKind::gelu_tanh;
  m.embedding_scale = 8;
  m.attention_softcap = 0.5f;
  m.logit_softcap = 0.3f;
  m.sliding_window = 5;
  m.full_attention_step = 2;
  m.attention_scale = 0.5;
  m.tied_embeddings = true;
  return m;
}

/// Gemma 3: Gemma 2 with normed heads and no soft caps; layers with a window rotate by another base than the others,
/// whose positions are slowed eightfold.
inline ModelConfig small_gemma3(std::int64_t layers = 4) {
  ModelConfig m = small_gemma2(layers);
  m.name = "small-gemma3";
  m.qk_norm = true;
  m.attention_softcap = m.logit_softcap = 0;
  m.full_attention_step = 3;
  m.rope.rule.theta = 1e6f, m.rope.rule.factor = 8;
  m.local_rope.emplace().rule.theta = 100;
  return m;
}

/// Llama 4's layers: every second one does not rotate; the rotation of the others is YaRN's.
inline ModelConfig small_nope(std::int64_t layers = 4) {
  ModelConfig m = small_llama(layers);
  m.name = "small-nope";
  m.unrotated_step = 2;
  m.rope.rule = {.theta = 1e4f, .factor = 4, .begin = 0, .end = 2.5, .amplitude = 1.2f};
  return m;
}

/// GPT-NeoX: attention and MLP side by side, a norm for each, a quarter of each head rotates.
inline ModelConfig small_neox(std::int64_t layers = 4) {
  ModelConfig m = small_gpt(layers);
  m.name = "small-neox";
  m.tied_embeddings = false;
  m.parallel_block = true;
  m.position = PositionKind::rope;
  m.head_dim = 16;
  m.rotary_fraction = 0.25;
  return m;
}

/// Falcon: both branches read one norm, one KV head for all, no biases on projections.
inline ModelConfig small_falcon(std::int64_t layers = 4) {
  ModelConfig m = small_neox(layers);
  m.name = "small-falcon";
  m.parallel_shared_norm = true;
  m.kv_heads = 1;
  m.rotary_fraction = 1;
  m.qkv_bias = m.attention_out_bias = m.mlp_bias = false;
  m.tied_embeddings = true;
  return m;
}

/// GPT-BigCode: GPT-2 with one KV head.
inline ModelConfig small_bigcode(std::int64_t layers = 4) {
  ModelConfig m = small_gpt(layers);
  m.name = "small-bigcode";
  m.kv_heads = 1;
  return m;
}

/// Phi-3 medium's shape: kv heads a quarter of the query heads, an untied head.
inline ModelConfig small_phi3(std::int64_t layers = 4) {
  ModelConfig m = small_llama(layers, 8, 8);
  m.name = "small-phi3";
  return m;
}

/// DeepSeek-V3's attention with a dense MLP: latents for queries and for keys and values, keys wider than values.
inline ModelConfig small_latent(std::int64_t layers = 4) {
  ModelConfig m = small_llama(layers, 8, 8);
  m.name = "small-latent";
  m.family = "deepseek";
  m.mla =
      MlaConfig{.q_lora_rank = 24, .kv_lora_rank = 16, .qk_nope_head_dim = 12, .qk_rope_head_dim = 4, .v_head_dim = 8};
  m.head_dim = 16;
  return m;
}

/// DeepSeek-V2-Lite's: queries projected directly.
inline ModelConfig small_latent_lite(std::int64_t layers = 4) {
  ModelConfig m = small_latent(layers);
  m.name = "small-latentlite";
  m.mla->q_lora_rank = 0;
  return m;
}

/// A vision transformer; with a class token it has 26 positions and a classifier, else 16 positions and CLIP's ends.
inline ModelConfig small_vit(bool class_token, std::int64_t layers = 2) {
  ModelConfig m = small_gpt(layers);
  m.name = class_token ? "small-vit" : "small-clip";
  m.family = "vit";
  m.vocab = 0;
  m.tied_embeddings = m.causal = false;
  m.activation = ActivationKind::gelu_erf;
  m.vision = VisionConfig{.image_size = class_token ? 10 : 8, .patch_size = 2, .channels = 3};
  m.vision->class_token = m.vision->patch_bias = class_token;
  m.vision->classes = class_token ? 300 : 0;
  m.vision->pre_norm = !class_token;
  m.vision->projection = class_token ? 0 : 48;
  m.max_positions = m.vision_tokens();
  return m;
}

/// ViT-22B: attention and MLP side by side behind one norm each, normed heads, no biases on norms and projections.
inline ModelConfig small_vit_22b(std::int64_t layers = 2) {
  ModelConfig m = small_vit(false, layers);
  m.name = "small-vit-22b";
  m.vision->pre_norm = false;
  m.vision->patch_bias = true;
  m.vision->classes = 300;
  m.vision->projection = 0;
  m.parallel_block = m.qk_norm = true;
  m.qkv_bias = m.norm_bias = false;
  return m;
}

/// A detector of the YOLO26 family at an eighth of its width, on images of 64 pixels.
inline ModelConfig small_yolo(bool deep_everywhere) {
  ModelConfig m;
  m.name = "small-yolo";
  m.family = "yolo";
  m.yolo =
      YoloConfig{.depth = 0.5, .width = 0.125, .classes = 16, .image_size = 64, .deep_everywhere = deep_everywhere};
  m.layers = static_cast<std::int64_t>(yolo_blocks(*m.yolo).size());
  m.causal = false;
  m.position = PositionKind::none;
  m.activation = ActivationKind::silu;
  return m;
}

/// A resolved experiment: 8 samples of 16 tokens a step.
inline Experiment small_experiment(ModelConfig const& model, Cut const& parallel) {
  Experiment e;
  e.model_name = model.name;
  e.model = model;
  e.cut = parallel;
  e.seq = model.vision ? model.vision_tokens() : model.yolo ? 1 : 16;
  e.micro_batch = 1;
  e.global_batch = 8;
  e.device = DeviceKind::cpu;
  resolve(e);
  return e;
}

inline Cut cut(std::int64_t dp, std::int64_t tp, std::int64_t pp, ScheduleKind schedule = ScheduleKind::one_f_one_b) {
  Cut p;
  p.dp = dp;
  p.tp = tp;
  p.pp = pp;
  p.schedule = schedule;
  return p;
}

}  // namespace shardbench::test
