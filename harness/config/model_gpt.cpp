#include <fmt/format.h>

#include "harness/config/model_schemas.hpp"

namespace shardbench {
namespace {

/// What every GPT has: LayerNorm with bias and biases on all projections.
ModelConfig gpt_base() {
  ModelConfig model;
  model.family = "gpt";
  model.qkv_bias = model.attention_out_bias = model.mlp_bias = true;
  return model;
}

/// Heads under `key` that share out the width, with keys and values of their own unless the file says otherwise.
void read_even_heads(JsonFields const& fields, std::string_view key, ModelConfig& model) {
  model.heads = model.kv_heads = fields.size(key, max_heads);
  if (model.hidden % model.heads != 0)
    fields.fail(key, fmt::format("{} heads do not divide the width {}", model.heads, model.hidden));
  model.head_dim = model.hidden / model.heads;
}

}  // namespace

ModelConfig read_gpt2(JsonFields const& fields, bool bigcode) {
  ModelConfig model = gpt_base();
  model.layers = fields.size("n_layer", max_layers);
  model.hidden = fields.size("n_embd");
  read_even_heads(fields, "n_head", model);
  if (bigcode && fields.flag_or("multi_query", true)) model.kv_heads = 1;
  model.ffn_hidden = fields.size_or("n_inner", 4 * model.hidden, 4 * max_width);  // null means 4 * n_embd (GPT2Config)
  model.vocab = fields.size("vocab_size", max_vocab);
  model.max_positions = fields.size(fields.any_of({"n_positions", "n_ctx"}), max_tokens >> 12);
  model.norm_eps = static_cast<float>(fields.number_or("layer_norm_epsilon", 1e-5, 1e-30, 1));
  model.activation = read_activation(fields, "activation_function", bigcode ? "gelu_pytorch_tanh" : "gelu_new");
  if (!fields.flag_or("scale_attn_weights", true)) model.attention_scale = 1;
  if (fields.flag_or("scale_attn_by_inverse_layer_idx", false))
    fields.fail("scale_attn_by_inverse_layer_idx", "true given, scores scaled by layer are not read (allowed: false)");
  model.tied_embeddings = fields.flag_or("tie_word_embeddings", true);
  return model;
}

ModelConfig read_gpt_neox(JsonFields const& fields) {
  ModelConfig model = gpt_base();
  model.layers = fields.size("num_hidden_layers", max_layers);
  model.hidden = fields.size("hidden_size");
  read_heads(fields, true, true, model);
  model.ffn_hidden = fields.size("intermediate_size");
  model.vocab = fields.size("vocab_size", max_vocab);
  model.max_positions = fields.count_or("max_position_embeddings", 0, max_tokens);
  model.norm_eps = static_cast<float>(fields.number_or("layer_norm_eps", 1e-5, 1e-30, 1));
  model.activation = read_activation(fields, "hidden_act", "gelu");
  model.rotary_fraction = read_rotary_share(fields, "rotary_pct", 0.25, 0);
  fields.has("rope_theta");  // libraries write the base under both names
  read_rope(fields, fields.any_of({"rotary_emb_base", "rope_theta"}), 10000, model);
  model.qkv_bias = model.attention_out_bias = fields.flag_or("attention_bias", true);
  model.parallel_block = fields.flag_or("use_parallel_residual", true);
  model.tied_embeddings = fields.flag_or("tie_word_embeddings", false);
  return model;
}

ModelConfig read_falcon(JsonFields const& fields) {
  ModelConfig model = gpt_base();
  if (fields.flag_or("alibi", false))
    fields.fail("alibi", "true given, positions by bias are not read (allowed: false)");
  model.layers = fields.size("num_hidden_layers", max_layers);
  model.hidden = fields.size("hidden_size");
  read_even_heads(fields, "num_attention_heads", model);
  bool const grouped = fields.flag_or("new_decoder_architecture", false);  // FalconConfig's names and defaults
  bool const one_head = fields.flag_or("multi_query", true);  // looked at in the older architecture alone
  fields.has("num_kv_heads");
  if (grouped)
    model.kv_heads = fields.size_or("num_kv_heads", model.heads, max_heads);
  else if (one_head)
    model.kv_heads = 1;
  if (model.heads % model.kv_heads != 0)
    fields.fail("num_kv_heads", fmt::format("{} does not divide num_attention_heads {}", model.kv_heads, model.heads));
  model.ffn_hidden = fields.size_or("ffn_hidden_size", 4 * model.hidden, 4 * max_width);
  model.vocab = fields.size("vocab_size", max_vocab);
  model.max_positions = fields.count_or("max_position_embeddings", 2048, max_tokens);
  model.norm_eps = static_cast<float>(fields.number_or("layer_norm_epsilon", 1e-5, 1e-30, 1));
  model.activation = read_activation(fields, "activation", "gelu");
  read_rope(fields, "rope_theta", 10000, model);
  model.qkv_bias = model.attention_out_bias = model.mlp_bias = fields.flag_or("bias", false);
  bool const parallel = fields.flag_or("parallel_attn", true);
  model.parallel_block = grouped || parallel;
  std::int64_t const norms = fields.size_or("num_ln_in_parallel_attn", grouped ? 2 : 1, 2);
  model.parallel_shared_norm = model.parallel_block && norms == 1;
  model.tied_embeddings = fields.flag_or("tie_word_embeddings", true);
  return model;
}

ModelConfig read_megatron(JsonFields const& fields) {
  ModelConfig model = gpt_base();
  model.layers = fields.size("num_layers", max_layers);
  model.hidden = fields.size("hidden_size");
  read_even_heads(fields, "num_attention_heads", model);
  model.ffn_hidden = fields.size_or("ffn_hidden_size", 4 * model.hidden, 4 * max_width);  // Megatron-LM's own default
  model.vocab = fields.size("vocab_size", max_vocab);
  model.max_positions = fields.size(fields.any_of({"max_position_embeddings", "seq_length"}), max_tokens >> 12);
  model.tied_embeddings = true;
  return model;
}

}  // namespace shardbench
