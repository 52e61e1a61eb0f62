#pragma once
// Models and experiments small enough to run every cut of them in a blink, with a vocabulary that needs padding.
#include "harness/config/experiment.hpp"
#include "harness/config/model_config.hpp"

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

/// A resolved experiment: 8 samples of 16 tokens a step.
inline Experiment small_experiment(ModelConfig const& model, ParallelConfig const& parallel) {
  Experiment e;
  e.model_name = model.name;
  e.model = model;
  e.parallel = parallel;
  e.seq = 16;
  e.micro_batch = 1;
  e.global_batch = 8;
  e.device = DeviceKind::cpu;
  resolve(e);
  return e;
}

inline ParallelConfig cut(std::int64_t dp, std::int64_t tp, std::int64_t pp, ScheduleKind schedule = ScheduleKind::one_f_one_b) {
  ParallelConfig p;
  p.dp = dp;
  p.tp = tp;
  p.pp = pp;
  p.schedule = schedule;
  return p;
}

}  // namespace shardbench::test
