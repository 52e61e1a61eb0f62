#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/activation/activation.hpp"
#include "kernels/norm/norm.hpp"
#include "kernels/rope/rope.hpp"

namespace shardbench {

enum class PositionKind : std::uint8_t { none, learned, rope };

/// A mixture-of-experts MLP and which layers have it.
struct MoeConfig {
  std::int64_t experts = 0;                ///< routed experts
  std::int64_t top_k = 1;                  ///< routed experts a token visits
  std::int64_t ffn_hidden = 0;             ///< width of one routed expert
  std::int64_t shared_ffn_hidden = 0;      ///< total width of the shared experts, 0 when there are none
  bool shared_gate = false;                ///< a sigmoid gate [hidden] on the shared expert (Qwen1.5-MoE)
  std::int64_t first_dense_layers = 0;     ///< layers before the first MoE layer
  std::int64_t layer_step = 1;             ///< every how many layers is MoE
  std::vector<std::int64_t> dense_layers;  ///< layers that stay dense although the step says MoE
  bool sigmoid_router = false;             ///< sigmoid scores (DeepSeek-V3, Llama 4), else softmax
  bool router_bias = false;                ///< a selection bias [experts] (DeepSeek-V3)
  bool normalize_top_k = false;            ///< the chosen weights are scaled to sum 1
  std::int64_t groups = 1;                 ///< expert groups of the router
  std::int64_t top_groups = 1;             ///< groups a token may choose from
  double routed_scale = 1;                 ///< factor on the weights of the routed experts (DeepSeek)
  bool scales_input = false;               ///< a chosen weight multiplies what the expert reads, not what it gives (Llama 4)
};

/// Multi-head latent attention (DeepSeek-V2).
struct MlaConfig {
  std::int64_t q_lora_rank = 0;  ///< 0: queries are projected directly
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_nope_head_dim = 0;
  std::int64_t qk_rope_head_dim = 0;
  std::int64_t v_head_dim = 0;
  float norm_eps = 1e-6f;   ///< of the latents' norms, whatever the model's is (the default of DeepSeek's norm class)
  bool interleaved = true;  ///< in a checkpoint, pairs that rotate lie side by side
};

/// Patch embedding of a vision transformer.
struct VisionConfig {
  std::int64_t image_size = 224, patch_size = 14, channels = 3;
  std::int64_t classes = 0;  ///< outputs of the classification head, 0 for a bare backbone
  bool class_token = true;
  bool patch_bias = true;
  bool pre_norm = false;        ///< a norm between the embedding and the first block (CLIP)
  std::int64_t projection = 0;  ///< width of a projection without bias after the last norm (CLIP), 0 when there is none
};

/// A detector of the YOLO26 family: depth, width and channel cap (harness/config/yolo.hpp lists its layers).
struct YoloConfig {
  double depth = 1, width = 1;
  std::int64_t channel_cap = 1024;
  std::int64_t classes = 80, image_size = 640;
  bool deep_everywhere = false;  ///< sizes m, l and x
};

/// The rotation of a kind of layer, before the length of a step is known.
struct RopeConfig {
  RopeRule rule;
  std::string scaling = "default";  ///< Hugging Face's rope_type
  /// Dynamic NTK: beyond `trained` positions the base grows by (factor * length / trained - (factor - 1))^(d / (d -
  /// 2)).
  double dynamic_factor = 0;
  std::int64_t trained = 0;
};

/// Something in a config that the step leaves out, and the length of a sequence from which that shows.
struct ModelNote {
  std::string text;
  std::int64_t beyond_positions = 0;
};

/// The architecture of a model: everything that decides its tensors. Sizes in elements.
struct ModelConfig {
  std::string name;    ///< "llama3.1-8b"
  std::string family;  ///< "gpt", "llama", "deepseek", "vit", "yolo", ...
  std::string type;    ///< Hugging Face's model_type, by which a checkpoint's names go; empty for other schemas
  std::int64_t layers = 0, hidden = 0, ffn_hidden = 0;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t vocab = 0;
  std::int64_t max_positions = 0;
  NormKind norm = NormKind::layer_norm;
  float norm_eps = 1e-5f;
  bool norm_bias = true;
  float norm_weight_offset = 0;  ///< 1: weights are stored as an offset from one (Gemma)
  bool post_norms = false;       ///< a norm after attention and MLP too (Gemma 2)
  bool qk_norm = false;          ///< per-head RMSNorm on queries and keys (Qwen3)
  bool final_norm = true;
  ActivationKind activation = ActivationKind::gelu_tanh;
  bool gated_mlp = false;
  PositionKind position = PositionKind::learned;
  RopeConfig rope;
  std::optional<RopeConfig> local_rope;        ///< of layers with a window, when they have their own (Gemma 3)
  std::int64_t unrotated_step = 0;             ///< every how many layers does not rotate (Llama 4: 4); 0: none
  std::vector<std::int64_t> unrotated_layers;  ///< and those, when they follow no step
  double rotary_fraction = 1;                  ///< share of each head that rotates (GPT-NeoX 0.25)
  bool qkv_bias = false, attention_out_bias = false, mlp_bias = false;
  bool tied_embeddings = false;
  bool parallel_block = false;        ///< x + attention(norm(x)) + mlp(norm(x)) (GPT-NeoX, Falcon, ViT-22B)
  bool parallel_shared_norm = false;  ///< one norm feeds both branches of a parallel block
  bool causal = true;
  float attention_softcap = 0, logit_softcap = 0;
  std::int64_t sliding_window = 0;       ///< 0: full attention
  std::int64_t full_attention_step = 0;  ///< every how many layers has no window (Gemma 2: 2, Gemma 3: 6); 0: none
  std::vector<std::int64_t> full_attention_layers;  ///< and those, when they follow no step
  double embedding_scale = 1;                       ///< factor on the embedding output (Gemma: sqrt(hidden))
  double attention_scale = 0;     ///< factor on the scores, 0: 1/sqrt(head_dim) (Gemma 2 names its own)
  std::int64_t vision_heads = 0;  ///< heads of a vision tower that is cut with the model (case C05), 0 when not given
  /// Outputs of a score that reads the last token in place of a head over the vocabulary (a reward model), 0: none.
  std::int64_t labels = 0;
  bool headless = false;          ///< neither: the bare model
  std::int64_t mtp_layers = 0;    ///< multi-token-prediction layers, blocks `layers` and on; counted apart
  std::optional<MoeConfig> moe;
  std::optional<MlaConfig> mla;
  std::optional<VisionConfig> vision;
  std::optional<YoloConfig> yolo;

  std::vector<ModelNote> notes;  ///< what of the config the step leaves out

  /// Width of all query heads together: heads * head_dim, which need not be `hidden`.
  std::int64_t query_width() const { return heads * head_dim; }
  std::int64_t kv_width() const { return kv_heads * head_dim; }
  bool is_moe_layer(std::int64_t layer) const;
  bool has_window(std::int64_t layer) const;
  /// How a layer turns `rotary_dim` elements of each head in a sequence of `length`; nothing when it does not.
  std::optional<RopeRule> rope_rule(std::int64_t layer, std::int64_t length, std::int64_t rotary_dim) const;
  /// "rotary base 1e+06, linear 8 (layers with a window of 1024: base 10000)"; empty without rotation.
  std::string rope_text() const;
  /// Values that the loss chooses among: vocabulary, classes, or the features of a tower without a classifier.
  std::int64_t outputs() const;
  /// Whether a sample is an image.
  bool takes_images() const { return vision || yolo; }
  /// Whether a head with a row for each output ends the model; a tower without one is trained on its features as
  /// logits.
  bool has_classifier() const { return !vision || vision->classes > 0; }
  /// Tokens of one image, class token included.
  std::int64_t vision_tokens() const;
};

/// Exact parameter counts, unpadded and unsharded, by part. `total` excludes MTP layers.
/// total = embedding + head + blocks + norms: `norms` holds every norm weight, wherever it sits, `blocks` the rest.
/// Of a multimodal model the language part is counted.
struct ParameterCount {
  std::int64_t total = 0, embedding = 0, head = 0, blocks = 0, norms = 0, mtp = 0;
  std::int64_t active = 0;  ///< parameters one token meets (top-k experts only)
};
ParameterCount count_parameters(ModelConfig const& model);

/// Reads a Hugging Face config.json (or an open_clip / Megatron size file) in any schema it knows. A Megatron table of
/// several sizes needs the size behind a colon: "sizes.json:22B".
/// Throws InputError naming the file and the key when something needed is missing, of a wrong type or out of range.
ModelConfig read_model_config(std::filesystem::path const& path);
ModelConfig parse_model_config(std::string_view json, std::string_view name);

/// A preset by name, or a path to a config.json. Throws InputError listing the presets when it is neither.
ModelConfig load_model(std::string_view name_or_path);
std::vector<std::string> preset_names();

}  // namespace shardbench
