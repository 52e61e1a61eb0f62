#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "harness/config/field_text.hpp"
#include "harness/config/model_schemas.hpp"
#include "harness/config/size_rules.hpp"

namespace shardbench {
namespace {

/// How a family's code comes by its sliding window: not at all, as given, 4096 unless given, the same if
/// use_sliding_window.
enum class WindowUse : std::uint8_t { none, given, usual_4096, when_asked };

/// What a family fixes in its model code or as the default of its Hugging Face configuration class.
struct Family {
  std::string_view type;
  bool tied;              ///< default of tie_word_embeddings
  bool qkv_bias;          ///< biases of queries, keys and values whatever attention_bias says
  bool kv_default;        ///< num_key_value_heads may be left out (then: heads)
  bool head_dim_default;  ///< head_dim may be left out (then: hidden / heads)
  bool qk_norm;
  float eps;     ///< default of rms_norm_eps
  double theta;  ///< default of rope_theta
  WindowUse window;
};

constexpr std::array families{
    Family{"llama", false, false, true, true, false, 1e-6f, 1e4, WindowUse::none},
    Family{"mistral", false, false, false, true, false, 1e-6f, 1e4, WindowUse::usual_4096},
    Family{"ministral3", false, false, false, true, false, 1e-5f, 1e6, WindowUse::given},
    Family{"mixtral", false, false, false, true, false, 1e-5f, 1e6, WindowUse::given},
    Family{"phi3", false, false, true, true, false, 1e-5f, 1e4, WindowUse::given},
    Family{"qwen2", false, true, false, true, false, 1e-6f, 1e4, WindowUse::when_asked},
    Family{"qwen2_moe", false, true, false, true, false, 1e-6f, 1e4, WindowUse::when_asked},
    Family{"qwen2_vl", false, true, false, true, false, 1e-5f, 1e6, WindowUse::when_asked},
    Family{"qwen2_vl_text", false, true, false, true, false, 1e-5f, 1e6, WindowUse::when_asked},
    Family{"qwen2_5_vl", false, true, false, true, false, 1e-5f, 1e6, WindowUse::when_asked},
    Family{"qwen2_5_vl_text", false, true, false, true, false, 1e-5f, 1e6, WindowUse::when_asked},
    Family{"qwen3", false, false, false, false, true, 1e-6f, 1e4, WindowUse::when_asked},
    Family{"qwen3_moe", false, false, false, true, true, 1e-6f, 1e4, WindowUse::when_asked},
    Family{"qwen3_vl_text", false, false, false, false, true, 1e-6f, 5e6, WindowUse::none},
    Family{"gemma", true, false, false, false, false, 1e-6f, 1e4, WindowUse::none},
    Family{"gemma2", true, false, false, false, false, 1e-6f, 1e4, WindowUse::usual_4096},
    Family{"gemma3_text", true, false, true, true, true, 1e-6f, 1e6, WindowUse::usual_4096},
    Family{"llama4", false, false, false, false, false, 1e-5f, 5e5, WindowUse::none},
    Family{"llama4_text", false, false, false, false, false, 1e-5f, 5e5, WindowUse::none},
    Family{"deepseek_v2", false, false, true, true, false, 1e-6f, 1e4, WindowUse::none},
    Family{"deepseek_v3", false, false, true, true, false, 1e-6f, 1e4, WindowUse::none},
};

Family const* find_family(std::string_view type) {
  auto const found = std::ranges::find(families, type, &Family::type);
  return found == families.end() ? nullptr : &*found;
}

/// A soft cap with the class's default; null is none.
float soft_cap(JsonFields const& fields, std::string_view key, double usual) {
  return static_cast<float>(fields.number_or(key, fields.is_null(key) ? 0 : usual, 0, 1e9));
}

void read_gemma(JsonFields const& fields, std::string_view type, ModelConfig& model) {
  model.norm_weight_offset = 1;
  model.embedding_scale = std::sqrt(static_cast<double>(model.hidden));
  if (type == "gemma") return;
  model.post_norms = true;
  double const scalar = fields.number_or("query_pre_attn_scalar", 256, 1e-6, 1e9);
  if (scalar != static_cast<double>(model.head_dim)) model.attention_scale = 1 / std::sqrt(scalar);
  bool const second = type == "gemma2";  // defaults of Gemma2Config and Gemma3TextConfig
  model.attention_softcap = soft_cap(fields, "attn_logit_softcapping", second ? 50 : 0);
  model.logit_softcap = soft_cap(fields, "final_logit_softcapping", second ? 30 : 0);
  if (fields.flag_or("use_bidirectional_attention", false))
    fields.fail("use_bidirectional_attention", "true given, both ways of a window are not read (allowed: false)");
  std::string_view const step = fields.any_of({"sliding_window_pattern", "_sliding_window_pattern"});
  model.full_attention_step = second ? 2 : fields.size_or(step, 6, max_layers);
}

/// Heads of a nested config whose class has these numbers of them, where it leaves them out.
void read_llama_heads(JsonFields const& fields, std::int64_t heads, std::int64_t kv_heads, bool kv_default,
                      bool head_dim_default, ModelConfig& model) {
  if (heads == 0 || (fields.has("num_attention_heads") && fields.has("num_key_value_heads")))
    return read_heads(fields, kv_default, head_dim_default, model);
  model.heads = fields.size_or("num_attention_heads", heads, max_heads);
  bool const own = fields.has("num_attention_heads") && kv_default;
  model.kv_heads = fields.size_or("num_key_value_heads", own ? model.heads : kv_heads, max_heads);
  if (model.heads % model.kv_heads != 0)
    fields.fail("num_key_value_heads",
                fmt::format("{} does not divide num_attention_heads {}", model.kv_heads, model.heads));
  if (!fields.has("head_dim") && model.hidden % model.heads != 0)
    fields.fail("head_dim", fmt::format("missing, and hidden_size {} is not a multiple of num_attention_heads {}",
                                        model.hidden, model.heads));
  model.head_dim = fields.size_or("head_dim", model.hidden / model.heads, max_heads);
}

/// Gemma3TextConfig's own sizes, which the files of its smaller models leave out.
void read_gemma3_heads(JsonFields const& fields, ModelConfig& model) {
  model.heads = fields.size_or("num_attention_heads", 8, max_heads);
  model.kv_heads = fields.size_or("num_key_value_heads", 4, max_heads);
  model.head_dim = fields.size_or("head_dim", 256, max_heads);
  if (model.heads % model.kv_heads != 0)
    fields.fail("num_key_value_heads",
                fmt::format("{} does not divide num_attention_heads {}", model.kv_heads, model.heads));
}

void read_mla(JsonFields const& fields, ModelConfig& model) {
  MlaConfig mla;
  // DeepSeek's classes have a rank unless the file says null.
  mla.q_lora_rank = fields.count_or("q_lora_rank", fields.is_null("q_lora_rank") ? 0 : 1536);
  mla.interleaved = fields.flag_or("rope_interleave", true);
  mla.kv_lora_rank = fields.size("kv_lora_rank");
  mla.qk_nope_head_dim = fields.size("qk_nope_head_dim", max_heads);
  mla.qk_rope_head_dim = fields.size("qk_rope_head_dim", max_heads);
  mla.v_head_dim = fields.size("v_head_dim", max_heads);
  model.mla = mla;
  model.head_dim = mla.qk_nope_head_dim + mla.qk_rope_head_dim;
  model.mtp_layers = fields.count_or("num_nextn_predict_layers", 0, max_layers);
}

/// Layers of which `special` holds: as every step-th where they are just those, else as a list.
template <class Special>
void set_layers(std::int64_t layers, Special special, std::int64_t& step, std::vector<std::int64_t>& listed) {
  step = 0;
  listed.clear();
  for (std::int64_t l = 0; l < layers; ++l)
    if (special(l)) listed.push_back(l);
  if (listed.empty()) return;
  std::int64_t const first = listed.front() + 1;
  for (std::int64_t l = 0; l < layers; ++l)
    if (special(l) != ((l + 1) % first == 0)) return;
  step = first;
  listed.clear();
}

/// layer_types, which names the kind of each layer's attention.
void read_layer_types(JsonFields const& fields, ModelConfig& model) {
  std::vector<std::string> const types = fields.texts("layer_types");
  if (types.empty()) return;
  if (static_cast<std::int64_t>(types.size()) != model.layers)
    fields.fail("layer_types", fmt::format("{} given for {} layers", types.size(), model.layers));
  for (std::string const& type : types)
    if (type != "full_attention" && type != "sliding_attention" && type != "chunked_attention")
      fields.fail("layer_types", fmt::format("{} is not one of full_attention, sliding_attention, chunked_attention",
                                             in_quotes(type)));
  set_layers(
      model.layers, [&](std::int64_t l) { return types[l] != "sliding_attention"; }, model.full_attention_step,
      model.full_attention_layers);
}

/// layer_types that ask for nothing are read where no window is.
void full_everywhere(JsonFields const& fields) {
  JsonValue const* const types = fields.value().find("layer_types");
  bool const list = types != nullptr && types->kind == JsonValue::Kind::list;
  if (list && std::ranges::all_of(types->items, [](JsonValue const& t) { return t.text == "full_attention"; }))
    fields.texts("layer_types");
}

/// The window is used only where the family's code looks at it.
void read_sliding_window(JsonFields const& fields, WindowUse use, ModelConfig& model) {
  full_everywhere(fields);
  if (use == WindowUse::none) return;
  std::int64_t const usual = use == WindowUse::given || fields.is_null("sliding_window") ? 0 : 4096;
  std::int64_t const window = fields.count_or("sliding_window", usual, max_tokens);
  if (use == WindowUse::when_asked) {  // Qwen: the first max_window_layers have none
    std::int64_t const first = fields.count_or("max_window_layers", 28, max_layers);
    if (!fields.flag_or("use_sliding_window", false)) return;
    set_layers(
        model.layers, [&](std::int64_t l) { return l < first; }, model.full_attention_step,
        model.full_attention_layers);
  }
  model.sliding_window = window;
  read_layer_types(fields, model);
}

/// Llama 4: every fourth layer does not rotate; the others attend within chunks, which is full attention up to the
/// length of one.
void read_llama4(JsonFields const& fields, ModelConfig& model) {
  std::vector<std::int64_t> const rotates = fields.counts("no_rope_layers", 1);  // 1: the layer rotates
  std::int64_t const interval = fields.size_or("no_rope_layer_interval", 4, max_layers);
  if (!rotates.empty() && static_cast<std::int64_t>(rotates.size()) < model.layers)
    fields.fail("no_rope_layers", fmt::format("{} given for {} layers", rotates.size(), model.layers));
  set_layers(
      model.layers, [&](std::int64_t l) { return rotates.empty() ? (l + 1) % interval == 0 : rotates[l] == 0; },
      model.unrotated_step, model.unrotated_layers);
  fields.texts("layer_types");
  std::int64_t const chunk =
      fields.count_or("attention_chunk_size", fields.is_null("attention_chunk_size") ? 0 : 8192, max_tokens);
  if (chunk > 0)
    model.notes.push_back(
        {fmt::format("attention_chunk_size: {} is left out, layers that attend within chunks attend to "
                     "the whole sequence here, which is more work",
                     chunk),
         chunk});
  if (fields.flag_or("use_qk_norm", true)) model.notes.push_back({"use_qk_norm: queries and keys are not normed here"});
  std::int64_t const floor = fields.size_or("floor_scale", 8192, max_tokens);
  fields.number_or("attn_scale", 0.1, 0, 1e6);
  if (!fields.has("attn_temperature_tuning") || fields.truthy("attn_temperature_tuning"))
    model.notes.push_back(
        {"attn_temperature_tuning: queries of layers without rotation are not scaled here", floor - 1});
}

/// Sizes of a configuration class, which a text_config within a multimodal file leaves out where it agrees.
struct ClassSizes {
  std::string_view type;
  std::int64_t hidden, ffn, layers, heads, kv_heads, vocab;
};
constexpr std::array class_sizes{
    ClassSizes{"llama", 4096, 11008, 32, 32, 32, 32000},      // LlamaConfig; key-value heads: as many as heads
    ClassSizes{"mistral", 4096, 14336, 32, 32, 8, 32000},     // MistralConfig
    ClassSizes{"qwen2", 4096, 22016, 32, 32, 32, 151936},     // Qwen2Config
    ClassSizes{"gemma2", 2304, 9216, 26, 8, 4, 256000},       // Gemma2Config
    ClassSizes{"gemma3_text", 2304, 9216, 26, 8, 4, 262208},  // Gemma3TextConfig
};

/// A size that has to be given, or may be left out in a nested config of these classes.
std::int64_t size_of(JsonFields const& fields, std::string_view key, std::int64_t max, std::int64_t class_size) {
  return class_size > 0 ? fields.size_or(key, class_size, max) : fields.size(key, max);
}

void read_expert_layers(JsonFields const& fields, std::string_view type, ModelConfig const& model, MoeConfig& moe) {
  if (type.starts_with("deepseek")) {
    std::int64_t const first = fields.count_or("first_k_dense_replace", 0, max_layers);
    moe.layer_step = fields.size_or("moe_layer_freq", 1, max_layers);
    moe.first_dense_layers = round_up(first, moe.layer_step);
    return;
  }
  bool const llama4 = type.starts_with("llama4");
  moe.layer_step = fields.size_or(llama4 ? "interleave_moe_layer_step" : "decoder_sparse_step", 1, max_layers);
  moe.first_dense_layers = moe.layer_step - 1;
  for (std::int64_t const layer : fields.counts("mlp_only_layers", max_layers))
    if (layer < model.layers) moe.dense_layers.push_back(layer);
  if (!llama4 || !fields.has("moe_layers")) return;
  std::vector<std::int64_t> const listed = fields.counts("moe_layers", max_layers);
  moe.layer_step = 1, moe.first_dense_layers = 0;
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    if (std::find(listed.begin(), listed.end(), layer) == listed.end()) moe.dense_layers.push_back(layer);
}

/// DeepSeek's names of what its model_type fixes here.
void check_router(JsonFields const& fields, MoeConfig const& moe) {
  std::string const scores = moe.sigmoid_router ? "sigmoid" : "softmax";
  std::string const said = fields.text_or("scoring_func", scores);
  if (said != scores) fields.fail("scoring_func", fmt::format("{} given, {} is what runs", in_quotes(said), scores));
  std::string const usual = moe.router_bias ? "noaux_tc" : moe.groups > 1 ? "group_limited_greedy" : "greedy";
  std::string const method = fields.text_or("topk_method", usual);
  if (method != usual) fields.fail("topk_method", fmt::format("{} given, {} is what runs", in_quotes(method), usual));
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
  bool const always = type == "mixtral" || type == "qwen2_moe" || type == "qwen3_moe" || type.starts_with("llama4");
  if (!always && !fields.has(key)) return;
  if (fields.has("num_local_experts") + fields.has("num_experts") + fields.has("n_routed_experts") > 1)
    fields.fail(key, "the number of experts is given under two names");
  MoeConfig moe;
  moe.experts = fields.size(key, max_heads);
  moe.top_k = fields.size(fields.any_of({"num_experts_per_tok", "num_experts_per_token"}), max_heads);
  if (moe.top_k > moe.experts)
    fields.fail("num_experts_per_tok", fmt::format("{} is more than the {} experts", moe.top_k, moe.experts));
  bool const own_width = type != "mixtral" && !type.starts_with("llama4");
  moe.ffn_hidden = own_width ? fields.size("moe_intermediate_size") : model.ffn_hidden;
  if (type.starts_with("llama4")) {  // one shared expert; dense layers have a width of their own
    moe.shared_ffn_hidden = model.ffn_hidden;
    model.ffn_hidden = fields.size("intermediate_size_mlp");
  }
  if (type == "qwen2_moe") {
    moe.shared_ffn_hidden = fields.size("shared_expert_intermediate_size");
    moe.shared_gate = true;
  }
  moe.shared_ffn_hidden += fields.count_or("n_shared_experts", 0, max_heads) * moe.ffn_hidden;
  moe.sigmoid_router = type == "deepseek_v3" || type.starts_with("llama4");
  moe.router_bias = type == "deepseek_v3";
  moe.scales_input = type.starts_with("llama4");
  // Mixtral always does, and DeepSeek-V2's code never looks at the key.
  moe.normalize_top_k =
      type == "mixtral" || (type != "deepseek_v2" && fields.flag_or("norm_topk_prob", type == "deepseek_v3"));
  moe.groups = fields.size_or("n_group", 1, max_heads);
  moe.top_groups = fields.size_or("topk_group", moe.groups, max_heads);
  check_router(fields, moe);
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
  model.family = type.starts_with("deepseek") ? "deepseek" : type.starts_with("gemma") ? "gemma" : "llama";
  bool const nested = outer.object("text_config").has_value() && !outer.has("hidden_size");
  auto const found = std::ranges::find(class_sizes, type, &ClassSizes::type);
  ClassSizes const sizes = nested && found != class_sizes.end() ? *found : ClassSizes{};
  model.layers = size_of(fields, "num_hidden_layers", max_layers, sizes.layers);
  model.hidden = size_of(fields, "hidden_size", max_width, sizes.hidden);
  model.ffn_hidden = size_of(fields, "intermediate_size", max_width, sizes.ffn);
  bool const mla = type.starts_with("deepseek"), gemma3 = type == "gemma3_text";
  model.vocab =
      gemma3 ? fields.size_or("vocab_size", 262208, max_vocab) : size_of(fields, "vocab_size", max_vocab, sizes.vocab);
  model.max_positions = fields.count_or("max_position_embeddings", gemma3 ? 131072 : 0, max_tokens);
  if (gemma3)
    read_gemma3_heads(fields, model);
  else
    read_llama_heads(fields, sizes.heads, sizes.kv_heads, family.kv_default, family.head_dim_default || mla, model);
  model.norm = NormKind::rms_norm;
  model.norm_bias = false;
  model.norm_eps = static_cast<float>(fields.number_or("rms_norm_eps", static_cast<double>(family.eps), 1e-30, 1));
  model.gated_mlp = true;
  bool const gemma = type.starts_with("gemma");
  std::string_view const act = gemma ? fields.any_of({"hidden_activation", "hidden_act"}) : "hidden_act";
  model.activation = read_activation(fields, act, gemma ? "gelu_pytorch_tanh" : "silu");
  model.rotary_fraction = read_rotary_share(fields, "partial_rotary_factor", 1, 0.01);
  bool const bias = fields.flag_or("attention_bias", false);
  model.qkv_bias = (type == "qwen2_moe" ? fields.flag_or("qkv_bias", true) : family.qkv_bias) || bias;
  model.attention_out_bias = bias;
  model.mlp_bias = fields.flag_or("mlp_bias", false);
  model.tied_embeddings = fields.flag_or("tie_word_embeddings", outer.flag_or("tie_word_embeddings", family.tied));
  model.qk_norm = family.qk_norm;
  if (gemma) read_gemma(fields, type, model);
  if (mla) read_mla(fields, model);
  read_sliding_window(fields, family.window, model);
  if (type.starts_with("llama4")) read_llama4(fields, model);
  read_rope(fields, "rope_theta", family.theta, model);
  if (gemma3) read_local_rope(fields, 10000, model);
  if (type == "ministral3" && !fields.has("rope_parameters"))
    model.notes.push_back({"rope_parameters: missing, the yarn scaling by 16 of Ministral3Config is left out"});
  read_moe(fields, type, model);
  return model;
}

}  // namespace shardbench
