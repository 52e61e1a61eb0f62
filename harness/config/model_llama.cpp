#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "harness/config/field_text.hpp"
#include "harness/config/model_schemas.hpp"

namespace shardbench {
namespace {

/// What a family fixes in its model code or as the default of its Hugging Face configuration class.
struct Family {
  std::string_view type;
  bool tied;              ///< default of tie_word_embeddings
  bool qkv_bias;          ///< attention_bias is read only where the code does
  bool kv_default;        ///< num_key_value_heads may be left out (then: heads)
  bool head_dim_default;  ///< head_dim may be left out (then: hidden / heads)
  bool qk_norm;
};

constexpr std::array families{
    Family{"llama", false, false, true, true, false},
    Family{"mistral", false, false, false, true, false},
    Family{"ministral3", false, false, false, true, false},
    Family{"mixtral", false, false, false, true, false},
    Family{"phi3", false, false, true, true, false},
    Family{"qwen2", false, true, false, true, false},
    Family{"qwen2_moe", false, true, false, true, false},
    Family{"qwen2_vl", false, true, false, true, false},
    Family{"qwen2_vl_text", false, true, false, true, false},
    Family{"qwen2_5_vl", false, true, false, true, false},
    Family{"qwen2_5_vl_text", false, true, false, true, false},
    Family{"qwen3", false, false, false, false, true},
    Family{"qwen3_moe", false, false, false, true, true},
    Family{"qwen3_vl_text", false, false, false, false, true},
    Family{"gemma", true, false, false, false, false},
    Family{"gemma2", true, false, false, false, false},
    Family{"gemma3_text", true, false, false, false, true},
    Family{"llama4", false, false, false, false, false},
    Family{"llama4_text", false, false, false, false, false},
    Family{"deepseek_v2", false, false, true, true, false},
    Family{"deepseek_v3", false, false, true, true, false},
};

Family const* find_family(std::string_view type) {
  auto const found = std::find_if(families.begin(), families.end(), [&](Family const& f) { return f.type == type; });
  return found == families.end() ? nullptr : &*found;
}

bool starts_with(std::string_view text, std::string_view start) { return text.substr(0, start.size()) == start; }

void read_gemma(JsonFields const& fields, std::string_view type, ModelConfig& model) {
  model.norm_weight_offset = 1;
  model.embedding_scale = std::sqrt(static_cast<double>(model.hidden));
  if (type == "gemma") return;
  model.post_norms = true;
  double const scalar = fields.number_or("query_pre_attn_scalar", 256, 1e-6, 1e9);
  if (scalar != static_cast<double>(model.head_dim)) model.attention_scale = 1 / std::sqrt(scalar);
  if (type == "gemma2") {  // defaults of Gemma2Config
    model.attention_softcap = static_cast<float>(fields.number_or("attn_logit_softcapping", 50, 1e-6, 1e9));
    model.logit_softcap = static_cast<float>(fields.number_or("final_logit_softcapping", 30, 1e-6, 1e9));
    model.full_attention_step = 2;
  } else {
    model.full_attention_step = fields.size_or("sliding_window_pattern", 6, max_layers);
  }
}

void read_mla(JsonFields const& fields, ModelConfig& model) {
  MlaConfig mla;
  mla.q_lora_rank = fields.count_or("q_lora_rank", 0);
  mla.kv_lora_rank = fields.size("kv_lora_rank");
  mla.qk_nope_head_dim = fields.size("qk_nope_head_dim", max_heads);
  mla.qk_rope_head_dim = fields.size("qk_rope_head_dim", max_heads);
  mla.v_head_dim = fields.size("v_head_dim", max_heads);
  model.mla = mla;
  model.head_dim = mla.qk_nope_head_dim + mla.qk_rope_head_dim;
  model.mtp_layers = fields.count_or("num_nextn_predict_layers", 0, max_layers);
}

/// The window is used only where the family's code looks at it.
void read_sliding_window(JsonFields const& fields, std::string_view type, ModelConfig& model) {
  bool const qwen = starts_with(type, "qwen");
  if (qwen && !fields.flag_or("use_sliding_window", false)) return;
  model.sliding_window = fields.count_or("sliding_window", 0, max_tokens);
}

void read_expert_layers(JsonFields const& fields, std::string_view type, ModelConfig const& model, MoeConfig& moe) {
  if (starts_with(type, "deepseek")) {
    std::int64_t const first = fields.count_or("first_k_dense_replace", 0, max_layers);
    moe.layer_step = fields.size_or("moe_layer_freq", 1, max_layers);
    moe.first_dense_layers = (first + moe.layer_step - 1) / moe.layer_step * moe.layer_step;
    return;
  }
  bool const llama4 = starts_with(type, "llama4");
  moe.layer_step = fields.size_or(llama4 ? "interleave_moe_layer_step" : "decoder_sparse_step", 1, max_layers);
  moe.first_dense_layers = moe.layer_step - 1;
  for (std::int64_t const layer : fields.counts("mlp_only_layers", max_layers))
    if (layer < model.layers) moe.dense_layers.push_back(layer);
}

}  // namespace

bool is_llama_like(std::string_view model_type) { return find_family(model_type) != nullptr; }

std::vector<std::string> llama_like_types() {
  std::vector<std::string> names;
  for (Family const& family : families) names.emplace_back(family.type);
  return names;
}

ActivationKind read_activation(JsonFields const& fields, std::string_view key, std::string_view fallback) {
  std::string const name = fields.text_or(key, fallback);
  if (name == "silu" || name == "swish") return ActivationKind::silu;
  if (name == "gelu") return ActivationKind::gelu_erf;
  for (std::string_view const tanh : {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"})
    if (name == tanh) return ActivationKind::gelu_tanh;
  fields.fail(
      key, fmt::format("{} is not one of silu, swish, gelu, gelu_new, gelu_pytorch_tanh, gelu_fast", in_quotes(name)));
}

void read_heads(JsonFields const& fields, bool kv_default, bool head_dim_default, ModelConfig& model) {
  model.heads = fields.size("num_attention_heads", max_heads);
  model.kv_heads = kv_default ? fields.size_or("num_key_value_heads", model.heads, max_heads)
                              : fields.size("num_key_value_heads", max_heads);
  if (model.heads % model.kv_heads != 0)
    fields.fail("num_key_value_heads",
                fmt::format("{} does not divide num_attention_heads {}", model.kv_heads, model.heads));
  if (fields.has("head_dim") || !head_dim_default) {
    model.head_dim = fields.size("head_dim", max_heads);
  } else if (model.hidden % model.heads == 0) {
    model.head_dim = model.hidden / model.heads;
  } else {
    fields.fail("head_dim", fmt::format("missing, and hidden_size {} is not a multiple of num_attention_heads {}",
                                        model.hidden, model.heads));
  }
}

void read_moe(JsonFields const& fields, std::string_view type, ModelConfig& model) {
  std::string_view const key = fields.any_of({"num_local_experts", "num_experts", "n_routed_experts"});
  bool const always = type == "mixtral" || type == "qwen2_moe" || type == "qwen3_moe" || starts_with(type, "llama4");
  if (!always && !fields.has(key)) return;
  if (fields.has("num_local_experts") + fields.has("num_experts") + fields.has("n_routed_experts") > 1)
    fields.fail(key, "the number of experts is given under two names");
  MoeConfig moe;
  moe.experts = fields.size(key, max_heads);
  moe.top_k = fields.size(fields.any_of({"num_experts_per_tok", "num_experts_per_token"}), max_heads);
  if (moe.top_k > moe.experts)
    fields.fail("num_experts_per_tok", fmt::format("{} is more than the {} experts", moe.top_k, moe.experts));
  bool const own_width = type != "mixtral" && !starts_with(type, "llama4");
  moe.ffn_hidden = own_width ? fields.size("moe_intermediate_size") : model.ffn_hidden;
  if (starts_with(type, "llama4")) {  // one shared expert; dense layers have a width of their own
    moe.shared_ffn_hidden = model.ffn_hidden;
    model.ffn_hidden = fields.size("intermediate_size_mlp");
  }
  if (type == "qwen2_moe") {
    moe.shared_ffn_hidden = fields.size("shared_expert_intermediate_size");
    moe.shared_gate = true;
  }
  moe.shared_ffn_hidden += fields.count_or("n_shared_experts", 0, max_heads) * moe.ffn_hidden;
  moe.sigmoid_router = type == "deepseek_v3" || starts_with(type, "llama4");
  moe.router_bias = type == "deepseek_v3";
  moe.normalize_top_k = fields.flag_or("norm_topk_prob", type == "mixtral" || type == "deepseek_v3");
  moe.groups = fields.size_or("n_group", 1, max_heads);
  moe.top_groups = fields.size_or("topk_group", moe.groups, max_heads);
  moe.routed_scale = fields.number_or("routed_scaling_factor", 1, 1e-6, 1e6);
  if (moe.experts % moe.groups != 0 || moe.top_groups > moe.groups ||
      moe.top_k > moe.experts / moe.groups * moe.top_groups)
    fields.fail("n_group", fmt::format("{} groups (topk_group {}) do not fit {} experts", moe.groups, moe.top_groups,
                                       moe.experts));
  read_expert_layers(fields, type, model, moe);
  model.moe = moe;
}

ModelConfig read_llama_like(JsonFields const& fields, std::string_view type, JsonFields const& outer) {
  Family const& family = *find_family(type);
  ModelConfig model;
  model.family = starts_with(type, "deepseek") ? "deepseek" : starts_with(type, "gemma") ? "gemma" : "llama";
  model.layers = fields.size("num_hidden_layers", max_layers);
  model.hidden = fields.size("hidden_size");
  model.ffn_hidden = fields.size("intermediate_size");
  model.vocab = fields.size("vocab_size", max_vocab);
  model.max_positions = fields.count_or("max_position_embeddings", 0, max_tokens);
  bool const mla = starts_with(type, "deepseek");
  read_heads(fields, family.kv_default, family.head_dim_default || mla, model);
  model.norm = NormKind::rms_norm;
  model.norm_bias = false;
  model.norm_eps = static_cast<float>(fields.number_or("rms_norm_eps", type == "llama" || mla ? 1e-6 : 1e-5, 1e-30, 1));
  model.gated_mlp = true;
  bool const gemma = starts_with(type, "gemma");
  std::string_view const act = gemma ? fields.any_of({"hidden_activation", "hidden_act"}) : "hidden_act";
  model.activation = read_activation(fields, act, gemma ? "gelu_pytorch_tanh" : "silu");
  model.position = PositionKind::rope;
  model.rope_theta = static_cast<float>(fields.number_or("rope_theta", 10000, 1, 1e12));
  model.rotary_fraction = fields.number_or("partial_rotary_factor", 1, 0.01, 1);
  bool const bias = fields.flag_or("attention_bias", false);
  model.qkv_bias = family.qkv_bias || bias;
  model.attention_out_bias = bias;
  model.mlp_bias = fields.flag_or("mlp_bias", false);
  model.tied_embeddings = fields.flag_or("tie_word_embeddings", outer.flag_or("tie_word_embeddings", family.tied));
  model.qk_norm = family.qk_norm;
  read_sliding_window(fields, type, model);
  if (gemma) read_gemma(fields, type, model);
  if (mla) read_mla(fields, model);
  read_moe(fields, type, model);
  return model;
}

}  // namespace shardbench
