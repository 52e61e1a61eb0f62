// Names and layouts of Llama-like checkpoints: Llama, Mistral, Qwen, Gemma, Phi-3, Mixtral, Llama 4, DeepSeek.
#include <fmt/format.h>

#include <map>

#include "harness/checkpoint/part_layout.hpp"
#include "harness/checkpoint/section_key.hpp"

namespace shardbench {
namespace {

using namespace part_layout;

/// A section of one model, whose names follow from its model_type.
class LlamaNames {
 public:
  LlamaNames(ModelConfig const& model, SectionKey const& key)
      : m_(model), key_(key), layer_(fmt::format("model.layers.{}.", key.layer)) {}

  std::optional<StoredPart> find() const {
    if (key_.layer < 0) return outer();
    if (auto part = norms()) return part;
    if (auto part = m_.mla ? latent_attention() : attention()) return part;
    if (auto part = mlp("mlp.", m_.ffn_hidden, llama4() ? "feed_forward." : "mlp.")) return part;
    return m_.moe ? experts() : std::nullopt;
  }

 private:
  bool is(std::string_view part) const { return key_.part == part; }
  bool type_starts(std::string_view prefix) const { return m_.type.starts_with(prefix); }
  bool llama4() const { return type_starts("llama4"); }
  std::string named(std::string_view name) const { return fmt::format("{}{}.{}", layer_, name, key_.suffix()); }
  StoredPart whole(std::string_view name, std::int64_t rows, std::int64_t cols) const {
    return rows_of(named(name), series(rows), rows, cols, key_.bias);
  }

  std::optional<StoredPart> outer() const {
    std::int64_t const h = m_.hidden;
    if (is("embedding.word")) return matrix("model.embed_tokens.weight", m_.vocab, h);
    if (is("head")) return matrix("lm_head.weight", m_.vocab, h);
    if (is("final_norm")) return vector("model.norm.weight", h);
    std::string_view part = key_.part;
    std::int64_t index = 0;
    if (!SectionKey::number_behind(part, "mtp.", index)) return std::nullopt;
    std::string const layer = fmt::format("model.layers.{}.", m_.layers + index);
    if (part == ".hidden_norm") return vector(layer + "hnorm.weight", h);
    if (part == ".embedding_norm") return vector(layer + "enorm.weight", h);
    if (part == ".norm") return vector(layer + "shared_head.norm.weight", h);
    if (part != ".projection") return std::nullopt;
    StoredPart projection = matrix(layer + "eh_proj.weight", h, 2 * h);  // there the embedding comes first
    for (std::int64_t c = 0; c < 2 * h; ++c) projection.cols[c] = (c + h) % (2 * h);
    return projection;
  }

  std::optional<StoredPart> norms() const {
    std::map<std::string_view, std::string_view> const names =
        m_.post_norms ? std::map<std::string_view, std::string_view>{{"norm1", "input_layernorm"},
                                                                     {"post_norm1", "post_attention_layernorm"},
                                                                     {"norm2", "pre_feedforward_layernorm"},
                                                                     {"post_norm2", "post_feedforward_layernorm"}}
                      : std::map<std::string_view, std::string_view>{{"norm1", "input_layernorm"},
                                                                     {"norm2", "post_attention_layernorm"}};
    auto const found = names.find(key_.part);
    if (found == names.end()) return std::nullopt;
    return vector(named(found->second), m_.hidden);
  }

  /// Row i of this model's head, where pairs that rotate may lie side by side in the file.
  std::int64_t head_row(std::int64_t i) const {
    std::int64_t const h = i / m_.head_dim, d = i % m_.head_dim;
    return h * m_.head_dim + (llama4() ? interleaved(d, m_.head_dim) : d);
  }

  std::optional<StoredPart> attention() const {
    std::int64_t const h = m_.hidden, q = m_.query_width(), kv = m_.kv_width();
    if (is("attention.q_norm")) return vector(named("self_attn.q_norm"), m_.head_dim);
    if (is("attention.k_norm")) return vector(named("self_attn.k_norm"), m_.head_dim);
    if (is("attention.out")) return whole("self_attn.o_proj", h, key_.bias ? 1 : q);
    if (!key_.part.starts_with("attention.qkv.")) return std::nullopt;
    char const letter = key_.part.back();
    std::int64_t const rows = letter == 'q' ? q : kv;
    if (m_.type == "phi3")
      return rows_of(named("self_attn.qkv_proj"),
                     series(rows, 1,
                            letter == 'q'   ? 0
                            : letter == 'k' ? q
                                            : q + kv),
                     q + 2 * kv, h, key_.bias);
    Numbers order = series(rows);
    if (letter != 'v')
      for (std::int64_t& row : order) row = head_row(row);
    return rows_of(named(fmt::format("self_attn.{}_proj", letter)), std::move(order), rows, h, key_.bias);
  }

  /// Row d of a rotary part.
  std::int64_t rotary_row(std::int64_t d) const {
    MlaConfig const& a = *m_.mla;
    return a.interleaved ? interleaved(d, a.qk_rope_head_dim) : d;
  }

  /// Heads are [rotary | plain] here and [plain | rotary] there.
  Numbers query_rows() const {
    MlaConfig const& a = *m_.mla;
    std::int64_t const rotary = a.qk_rope_head_dim, plain = a.qk_nope_head_dim, dim = rotary + plain;
    Numbers rows;
    for (std::int64_t h = 0; h < m_.heads; ++h)
      for (std::int64_t d = 0; d < dim; ++d)
        rows.push_back(h * dim + (d < rotary ? plain + rotary_row(d) : d - rotary));
    return rows;
  }

  std::optional<StoredPart> latent_attention() const {
    MlaConfig const& a = *m_.mla;
    std::int64_t const h = m_.hidden, rank = a.kv_lora_rank, plain = a.qk_nope_head_dim, value = a.v_head_dim;
    std::int64_t const q_width = m_.heads * (plain + a.qk_rope_head_dim), pair = plain + value;
    if (is("attention.q_norm")) return vector(named("self_attn.q_a_layernorm"), a.q_lora_rank);
    if (is("attention.kv_norm")) return vector(named("self_attn.kv_a_layernorm"), rank);
    if (is("attention.out")) return whole("self_attn.o_proj", h, key_.bias ? 1 : m_.heads * value);
    if (is("attention.q_down")) return whole("self_attn.q_a_proj", a.q_lora_rank, h);
    if (is("attention.q_up"))
      return a.q_lora_rank > 0 ? rows_of(named("self_attn.q_b_proj"), query_rows(), q_width, a.q_lora_rank, false)
                               : rows_of(named("self_attn.q_proj"), query_rows(), q_width, h, false);
    if (is("attention.kv_down")) {
      Numbers rows = series(rank);
      for (std::int64_t d = 0; d < a.qk_rope_head_dim; ++d) rows.push_back(rank + rotary_row(d));
      return rows_of(named("self_attn.kv_a_proj_with_mqa"), rows, rank + a.qk_rope_head_dim, h, key_.bias);
    }
    bool const keys = is("attention.kv_up.k");
    if (!keys && !is("attention.kv_up.v")) return std::nullopt;
    return rows_of(named("self_attn.kv_b_proj"), heads(m_.heads, keys ? plain : value, pair, keys ? 0 : plain),
                   m_.heads * pair, rank, false);
  }

  /// An MLP of `width` whose parts are called `ours`.up.gate and so on; in the file below `theirs`.
  std::optional<StoredPart> mlp(std::string const& ours, std::int64_t width, std::string const& theirs) const {
    std::int64_t const h = m_.hidden;
    bool const gate = is(ours + "up.gate");
    if (m_.type == "phi3" && (gate || is(ours + "up.up")))
      return rows_of(named(theirs + "gate_up_proj"), series(width, 1, gate ? 0 : width), 2 * width, h, key_.bias);
    if (gate) return whole(theirs + "gate_proj", width, h);
    if (is(ours + "up.up")) return whole(theirs + "up_proj", width, h);
    if (is(ours + "down")) return whole(theirs + "down_proj", h, width);
    return std::nullopt;
  }

  std::optional<StoredPart> experts() const {
    MoeConfig const& moe = *m_.moe;
    bool const mixtral = m_.type == "mixtral";
    std::string const base = mixtral ? "block_sparse_moe." : llama4() ? "feed_forward." : "mlp.";
    if (is("moe.router") && key_.bias) return vector(layer_ + "mlp.gate.e_score_correction_bias", moe.experts);
    if (is("moe.router")) return whole(base + (llama4() ? "router" : "gate"), moe.experts, m_.hidden);
    if (is("moe.shared_gate")) return whole("mlp.shared_expert_gate", 1, m_.hidden);
    std::string const shared = type_starts("deepseek") ? "shared_experts." : "shared_expert.";
    if (auto part = mlp("moe.shared.", moe.shared_ffn_hidden, base + shared)) return part;
    std::string_view part = key_.part;
    std::int64_t expert = 0;
    if (!SectionKey::number_behind(part, "experts.", expert)) return std::nullopt;
    bool const down = part == ".down", gate = part == ".gate";
    if (llama4()) return stacked_expert(expert, down, gate);
    std::string const name = mixtral ? (down ? "w2" : gate ? "w1" : "w3") : std::string(part.substr(1)) + "_proj";
    std::int64_t const f = moe.ffn_hidden;
    return whole(fmt::format("{}experts.{}.{}", base, expert, name), down ? m_.hidden : f, down ? f : m_.hidden);
  }

  /// Llama 4 stores all experts as one tensor, inputs by outputs, gate and up side by side.
  StoredPart stacked_expert(std::int64_t expert, bool down, bool gate) const {
    std::int64_t const h = m_.hidden, f = m_.moe->ffn_hidden, e = m_.moe->experts;
    std::string const name = layer_ + "feed_forward.experts.";
    if (down) return {name + "down_proj", {e, f, h}, series(h, 1, expert * f * h), series(f, h)};
    return {name + "gate_up_proj", {e, h, 2 * f}, series(f, 1, expert * h * 2 * f + (gate ? 0 : f)), series(h, 2 * f)};
  }

  ModelConfig const& m_;
  SectionKey const& key_;
  std::string layer_;
};

}  // namespace

std::optional<StoredPart> stored_llama(ModelConfig const& model, SectionKey const& key) {
  return LlamaNames(model, key).find();
}

}  // namespace shardbench
