#include "harness/config/model_config.hpp"
#include "harness/config/yolo.hpp"

namespace shardbench {
namespace {

/// Weights of one part of a block, the norms apart.
struct Part {
  std::int64_t weights = 0, norms = 0;
};

std::int64_t norm_size(ModelConfig const& model, std::int64_t width) { return model.norm_bias ? 2 * width : width; }

/// Latent attention: queries and keys/values go through low-rank factors with a norm between (arXiv 2405.04434).
Part latent_attention(ModelConfig const& model, MlaConfig const& mla) {
  std::int64_t const h = model.hidden, q_rank = mla.q_lora_rank, kv_rank = mla.kv_lora_rank;
  std::int64_t const query = model.heads * (mla.qk_nope_head_dim + mla.qk_rope_head_dim);
  Part part{q_rank > 0 ? h * q_rank + q_rank * query : h * query, q_rank + kv_rank};
  part.weights += h * (kv_rank + mla.qk_rope_head_dim);
  part.weights += kv_rank * model.heads * (mla.qk_nope_head_dim + mla.v_head_dim);
  part.weights += model.heads * mla.v_head_dim * h;
  // Of the projections the down ones and the last have the biases.
  if (model.qkv_bias) part.weights += q_rank + kv_rank + mla.qk_rope_head_dim;
  if (model.attention_out_bias) part.weights += h;
  return part;
}

Part attention(ModelConfig const& model) {
  if (model.mla) return latent_attention(model, *model.mla);
  std::int64_t const h = model.hidden, q = model.query_width(), kv = model.kv_width();
  Part part;
  part.weights = h * (q + 2 * kv) + q * h;
  if (model.qkv_bias) part.weights += q + 2 * kv;
  if (model.attention_out_bias) part.weights += h;
  if (model.qk_norm) part.norms = 2 * model.head_dim;
  return part;
}

std::int64_t mlp(ModelConfig const& model, std::int64_t ffn) {
  std::int64_t const up = model.gated_mlp ? 2 * ffn : ffn;
  return model.hidden * (up + ffn) + (model.mlp_bias ? up + model.hidden : 0);
}

std::int64_t expert_mlps(ModelConfig const& model, MoeConfig const& moe) {
  std::int64_t weights = moe.experts * (mlp(model, moe.ffn_hidden) + model.hidden);
  if (moe.router_bias) weights += moe.experts;
  if (moe.shared_ffn_hidden > 0) weights += mlp(model, moe.shared_ffn_hidden);
  if (moe.shared_gate) weights += model.hidden;
  return weights;
}

Part block(ModelConfig const& model, bool is_moe) {
  Part part = attention(model);
  part.weights += is_moe ? expert_mlps(model, *model.moe) : mlp(model, model.ffn_hidden);
  std::int64_t const norms = (model.parallel_shared_norm ? 1 : 2) * (model.post_norms ? 2 : 1);
  part.norms += norms * norm_size(model, model.hidden);
  return part;
}

std::int64_t embedding_size(ModelConfig const& model) {
  std::int64_t const h = model.hidden;
  std::int64_t size = model.vocab * h;
  if (model.position == PositionKind::learned) size += model.max_positions * h;
  if (model.vision) {
    VisionConfig const& v = *model.vision;
    size += v.patch_size * v.patch_size * v.channels * h + (v.patch_bias ? h : 0) + (v.class_token ? h : 0);
  }
  return size;
}

std::int64_t head_size(ModelConfig const& model) {
  if (model.labels > 0 || model.headless) return model.labels * model.hidden;
  if (!model.vision) return model.tied_embeddings ? 0 : model.vocab * model.hidden;
  std::int64_t const classes = model.vision->classes;
  std::int64_t const projected = model.vision->projection > 0 ? model.vision->projection : model.hidden;
  return model.vision->projection * model.hidden + classes * projected + classes;
}

/// A multi-token-prediction layer: a block, a [2h, h] projection and three norms; embedding and head are shared.
std::int64_t mtp_layer(ModelConfig const& model) {
  Part const part = block(model, model.moe.has_value());
  return part.weights + part.norms + 2 * model.hidden * model.hidden + 3 * norm_size(model, model.hidden);
}

ParameterCount count_yolo(YoloConfig const& config) {
  ParameterCount count;
  for (YoloBlock const& one : yolo_blocks(config))
    for (ConvLayer const& layer : one.convs) {
      std::int64_t const norm = layer.batch_norm ? 2 * layer.out : 0;
      count.norms += norm;
      (one.kind == "detect" ? count.head : count.blocks) += layer.parameters() - norm;
    }
  count.total = count.active = count.head + count.blocks + count.norms;
  return count;
}

}  // namespace

ParameterCount count_parameters(ModelConfig const& model) {
  if (model.yolo) return count_yolo(*model.yolo);
  Part all;
  std::int64_t unvisited = 0;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    bool const is_moe = model.is_moe_layer(layer);
    Part const part = block(model, is_moe);
    all.weights += part.weights, all.norms += part.norms;
    if (is_moe) unvisited += (model.moe->experts - model.moe->top_k) * mlp(model, model.moe->ffn_hidden);
  }
  ParameterCount count;
  count.embedding = embedding_size(model);
  count.head = head_size(model);
  count.blocks = all.weights;
  count.norms = all.norms + (model.final_norm ? norm_size(model, model.hidden) : 0);
  if (model.vision && model.vision->pre_norm) count.norms += norm_size(model, model.hidden);
  count.total = count.embedding + count.head + count.blocks + count.norms;
  count.mtp = model.mtp_layers * mtp_layer(model);
  count.active = count.total - unvisited;
  return count;
}

}  // namespace shardbench
