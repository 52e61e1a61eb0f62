#pragma once
// Small members of the families of mixtures of experts.
#include "tests/harness/exec/small_models.hpp"

namespace shardbench::test {

/// Mixtral: 8 experts, the weights of the chosen two sum to one.
inline ModelConfig small_mixtral(std::int64_t layers = 2) {
  ModelConfig m = small_llama(layers);
  m.name = "small-mixtral";
  m.moe = MoeConfig{};
  m.moe->experts = 8;
  m.moe->top_k = 2;
  m.moe->ffn_hidden = 48;
  m.moe->normalize_top_k = true;
  return m;
}

/// Qwen3-MoE: many narrow experts.
inline ModelConfig small_qwen3_moe(std::int64_t layers = 2) {
  ModelConfig m = small_mixtral(layers);
  m.name = "small-qwen3-moe";
  m.moe->experts = 32;
  m.moe->top_k = 4;
  m.moe->ffn_hidden = 16;
  return m;
}

/// Qwen1.5-MoE: plain softmax weights, and a gated shared expert.
inline ModelConfig small_qwen15_moe(std::int64_t layers = 2) {
  ModelConfig m = small_mixtral(layers);
  m.name = "small-qwen1.5-moe";
  m.qkv_bias = true;
  m.moe->experts = 16;
  m.moe->top_k = 3;
  m.moe->ffn_hidden = 16;
  m.moe->normalize_top_k = false;
  m.moe->shared_ffn_hidden = 64;
  m.moe->shared_gate = true;
  return m;
}

/// The expert part of DeepSeek-V3: sigmoid scores with a bias, groups, a scaled sum of weights, shared experts, and a
/// first layer that is dense.
inline ModelConfig small_deepseek_moe(std::int64_t layers = 3) {
  ModelConfig m = small_mixtral(layers);
  m.name = "small-deepseek-moe";
  MoeConfig& moe = *m.moe;
  moe.experts = 16;
  moe.top_k = 4;
  moe.ffn_hidden = 16;
  moe.sigmoid_router = moe.router_bias = true;
  moe.groups = 4;
  moe.top_groups = 2;
  moe.routed_scale = 2.5;
  moe.shared_ffn_hidden = 32;
  moe.first_dense_layers = 1;
  return m;
}

inline std::vector<ModelConfig> small_moe_models() {
  return {small_mixtral(), small_qwen3_moe(), small_qwen15_moe(), small_deepseek_moe()};
}

inline Cut expert_cut(std::int64_t dp, std::int64_t tp, std::int64_t pp, std::int64_t ep, std::int64_t etp = 1) {
  Cut p = cut(dp, tp, pp);
  p.ep = ep;
  p.etp = etp;
  return p;
}

}  // namespace shardbench::test
