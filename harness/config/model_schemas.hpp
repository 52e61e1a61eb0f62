#pragma once
// The schemas that parse_model_config dispatches to; each fills everything but the name.
#include "harness/config/json_fields.hpp"
#include "harness/config/model_config.hpp"

namespace shardbench {

inline constexpr std::int64_t max_layers = 10000;
inline constexpr std::int64_t max_heads = 65536;
inline constexpr std::int64_t max_vocab = std::int64_t{1} << 27;
inline constexpr std::int64_t max_tokens = std::int64_t{1} << 40;

/// True for a model_type that reads like Llama (also Qwen, Gemma, Phi-3, Mixtral, DeepSeek ...).
bool is_llama_like(std::string_view model_type);
std::vector<std::string> llama_like_types();
/// `outer` is the whole file of a multimodal model, whose tie_word_embeddings counts when the text part has none.
ModelConfig read_llama_like(JsonFields const& fields, std::string_view model_type, JsonFields const& outer);

ModelConfig read_gpt2(JsonFields const& fields, bool bigcode);
ModelConfig read_gpt_neox(JsonFields const& fields);
ModelConfig read_falcon(JsonFields const& fields);
/// One size of Megatron-LM's arguments: num_layers, hidden_size, num_attention_heads, seq_length, vocab_size.
ModelConfig read_megatron(JsonFields const& fields);

ModelConfig read_vit(JsonFields const& fields);
ModelConfig read_open_clip(JsonFields const& fields);
ModelConfig read_yolo(JsonFields const& fields);

/// The rotation: its base under `theta_key`, and rope_scaling or rope_parameters; the head's sizes come before.
void read_rope(JsonFields const& fields, std::string_view theta_key, double default_theta, ModelConfig& model);
/// The share of each head that rotates, under `key` or within rope_parameters.
double read_rotary_share(JsonFields const& fields, std::string_view key, double usual, double least);
/// The base of layers with a window, when they have their own (Gemma 3).
void read_local_rope(JsonFields const& fields, double default_theta, ModelConfig& model);
/// Notes the keys that ask for something and that nobody read.
void note_unread(JsonFields const& fields, ModelConfig& model);
/// Notes the towers beside the language part.
void note_towers(JsonFields const& outer, ModelConfig& model);

/// The MoE part of a Llama-like config; sets moe when the config names experts.
void read_moe(JsonFields const& fields, std::string_view model_type, ModelConfig& model);
/// heads, kv_heads and head_dim; `kv_default` and `head_dim_default` say whether the family lets them be left out.
void read_heads(JsonFields const& fields, bool kv_default, bool head_dim_default, ModelConfig& model);
ActivationKind read_activation(JsonFields const& fields, std::string_view key, std::string_view fallback);

}  // namespace shardbench
