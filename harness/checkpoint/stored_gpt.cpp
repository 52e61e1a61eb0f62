// Names and layouts of GPT checkpoints: GPT-2 (and Megatron's sizes), GPT-BigCode, GPT-NeoX, Falcon.
#include <fmt/format.h>

#include <map>

#include "harness/checkpoint/part_layout.hpp"
#include "harness/checkpoint/section_key.hpp"

namespace shardbench {
namespace {

using namespace part_layout;
using Names = std::map<std::string_view, std::string_view>;

bool is_falcon(ModelConfig const& m) { return m.type == "falcon"; }
bool is_neox(ModelConfig const& m) { return m.type == "gpt_neox"; }
/// GPT-2 stores its products as inputs by outputs (Conv1D), and so do files in its form; the others do not.
bool is_transposed(ModelConfig const& m) { return !is_falcon(m) && !is_neox(m) && m.type != "gpt_bigcode"; }

Names const& layer_names(ModelConfig const& m) {
  static Names const gpt2{{"norm1", "ln_1"},
                          {"norm2", "ln_2"},
                          {"attention.qkv", "attn.c_attn"},
                          {"attention.out", "attn.c_proj"},
                          {"mlp.up", "mlp.c_fc"},
                          {"mlp.down", "mlp.c_proj"}};
  static Names const neox{{"norm1", "input_layernorm"},
                          {"norm2", "post_attention_layernorm"},
                          {"attention.qkv", "attention.query_key_value"},
                          {"attention.out", "attention.dense"},
                          {"mlp.up", "mlp.dense_h_to_4h"},
                          {"mlp.down", "mlp.dense_4h_to_h"}};
  static Names const falcon{{"norm1", "input_layernorm"},
                            {"norm2", "post_attention_layernorm"},
                            {"attention.qkv", "self_attention.query_key_value"},
                            {"attention.out", "self_attention.dense"},
                            {"mlp.up", "mlp.dense_h_to_4h"},
                            {"mlp.down", "mlp.dense_4h_to_h"}};
  return is_neox(m) ? neox : is_falcon(m) ? falcon : gpt2;
}

std::optional<StoredPart> outer(ModelConfig const& m, SectionKey const& key) {
  Names const embedding{{"gpt_neox", "gpt_neox.embed_in"}, {"falcon", "transformer.word_embeddings"}};
  auto const found = embedding.find(m.type);
  std::string const word(found == embedding.end() ? "transformer.wte" : found->second);
  if (key.part == "embedding.word") return matrix(word + ".weight", m.vocab, m.hidden);
  if (key.part == "embedding.position") return matrix("transformer.wpe.weight", m.max_positions, m.hidden);
  if (key.part == "head") return matrix(is_neox(m) ? "embed_out.weight" : "lm_head.weight", m.vocab, m.hidden);
  if (key.part != "final_norm") return std::nullopt;
  return vector(fmt::format("{}.{}", is_neox(m) ? "gpt_neox.final_layer_norm" : "transformer.ln_f", key.suffix()),
                m.hidden);
}

/// Rows of q, k or v in the packed projection. Falcon's newer models lie in groups of a key-value head and its queries;
/// where each query head has keys of its own the three lie together head by head, but in GPT-2.
Numbers packed_rows(ModelConfig const& m, char letter) {
  std::int64_t const d = m.head_dim, q = m.query_width(), kv = m.kv_width(), group = m.heads / m.kv_heads;
  if (letter != 'q' && m.kv_heads == 1) return series(d, 1, letter == 'k' ? q : q + d);
  if (m.kv_heads == 1) return series(q);
  if (is_transposed(m)) return series(letter == 'q' ? q : kv, 1, letter == 'q' ? 0 : letter == 'k' ? q : q + kv);
  std::int64_t const unit = (group + 2) * d;
  if (letter != 'q') return heads(m.kv_heads, d, unit, (group + (letter == 'k' ? 0 : 1)) * d);
  return heads(m.kv_heads, group * d, unit, 0);
}

}  // namespace

std::optional<StoredPart> stored_gpt(ModelConfig const& m, SectionKey const& key) {
  if (key.layer < 0) return outer(m, key);
  bool const packed = key.part.starts_with("attention.qkv.");
  Names const& names = layer_names(m);
  auto const found = names.find(packed ? std::string_view("attention.qkv") : std::string_view(key.part));
  if (found == names.end()) return std::nullopt;
  std::string_view theirs = found->second;
  if (is_falcon(m) && m.parallel_block && !m.parallel_shared_norm && key.part.starts_with("norm"))
    theirs = key.part == "norm1" ? "ln_attn" : "ln_mlp";
  std::string const name =
      fmt::format("{}{}.{}.{}", is_neox(m) ? "gpt_neox.layers." : "transformer.h.", key.layer, theirs, key.suffix());
  if (key.part.starts_with("norm")) return vector(name, m.hidden);
  std::int64_t const h = m.hidden;
  auto const part = is_transposed(m) ? columns_of : rows_of;
  if (packed) return part(name, packed_rows(m, key.part.back()), m.query_width() + 2 * m.kv_width(), h, key.bias);
  std::int64_t const outputs = key.part == "mlp.up" ? m.ffn_hidden : h;
  std::int64_t const inputs = key.part == "mlp.up" ? h : key.part == "mlp.down" ? m.ffn_hidden : m.query_width();
  return part(name, series(outputs), outputs, inputs, key.bias);
}

}  // namespace shardbench
