#include "harness/program/model_graph.hpp"

#include <fmt/format.h>

#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

/// The residual stream: a value and a branch output that the next norm (or the chunk's end) adds to it.
struct Residual {
  Value base;
  Value pending;
};

LinearSpec qkv_spec(ModelConfig const& m) {
  return {"attention.qkv",
          "attention.qkv",
          {{".q", m.query_width(), m.query_width(), m.heads, false},
           {".k", m.kv_width(), m.kv_width(), m.kv_heads, true},
           {".v", m.kv_width(), m.kv_width(), m.kv_heads, true}},
          m.hidden,
          m.qkv_bias,
          -1};
}

Value attention_branch(GraphBuilder& b, ModelConfig const& m, Value x, std::int64_t layer) {
  Value const qkv = b.linear(x, qkv_spec(m));
  Value const attended = b.attention(qkv, layer);
  return b.linear(attended, {"attention.out",
                             "attention.out",
                             {{"", m.hidden, m.hidden, 0, false}},
                             m.query_width(),
                             m.attention_out_bias,
                             -1});
}

Value mlp_branch(GraphBuilder& b, ModelConfig const& m, Value x, std::string const& name, std::int64_t f) {
  LinearSpec up{name + ".up", "mlp.up", {}, m.hidden, m.mlp_bias, -1};
  if (m.gated_mlp)
    up.sections = {{".gate", f, f, 0, false}, {".up", f, f, 0, false}};
  else
    up.sections = {{"", f, f, 0, false}};
  Value const hidden = b.activation(b.linear(x, up), f);
  return b.linear(hidden, {name + ".down", "mlp.down", {{"", m.hidden, m.hidden, 0, false}}, f, m.mlp_bias, -1});
}

/// Routed experts, and the shared ones that every token meets beside them.
Value moe_branch(GraphBuilder& b, ModelConfig const& m, Value x) {
  Value const input = b.moe_input(x);
  Value const routed = b.moe(input);
  if (m.moe->shared_ffn_hidden == 0) return routed;
  Value shared = mlp_branch(b, m, x, "moe.shared", m.moe->shared_ffn_hidden);
  if (m.moe->shared_gate) shared = b.gate(shared, input, "moe.shared_gate");
  return b.add(routed, shared);
}

void build_block(GraphBuilder& b, ModelConfig const& m, std::int64_t layer, Residual& stream) {
  b.set_layer(layer);
  Value const x = b.norm(stream.base, stream.pending, "norm1", &stream.base);
  stream.pending = attention_branch(b, m, x, layer);
  Value const y = b.norm(stream.base, stream.pending, "norm2", &stream.base);
  stream.pending = m.is_moe_layer(layer) ? moe_branch(b, m, y) : mlp_branch(b, m, y, "mlp", m.ffn_hidden);
}

Value build_embedding(GraphBuilder& b, ModelConfig const& m, StepProgram const& p) {
  b.set_layer(-1);
  Value x = b.embedding("embedding.word", "embedding.word", p.vocab, p.padded_vocab, p.ids);
  x = b.redistribute_to_block(x, "embedding.reduce");
  if (m.position == PositionKind::learned) x = b.add_positions(x, "embedding.position", m.max_positions);
  return x;
}

void build_head(GraphBuilder& b, ModelConfig const& m, StepProgram const& p, Residual stream) {
  b.set_layer(-1);
  Value const x = b.norm(stream.base, stream.pending, "final_norm", nullptr);
  LinearSpec head{"head", "head", {{"", p.vocab, p.padded_vocab, 0, false}}, m.hidden, false, -1};
  if (m.tied_embeddings) {
    // On the stage that has the embedding too the head reads the very same weight; elsewhere it holds a copy under the
    // embedding's name, and the two gradients are summed.
    head.shared_weight = b.parameter_index("embedding.word.weight");
    head.name = "embedding.word";
    head.role = "embedding.word";
  }
  Value const logits = b.linear(x, head);
  b.loss(logits, b.first_row(head));
}

}  // namespace

std::string unsupported_part(ModelConfig const& m) {
  if (m.yolo) return "convolutional layers";
  if (m.vision) return "patch embedding";
  if (m.mla) return "multi-head latent attention";
  if (m.post_norms) return "norms after the branches";
  if (m.qk_norm) return "query and key norms";
  if (m.parallel_block) return "parallel attention and MLP";
  if (m.embedding_scale != 1) return "scaled embeddings";
  if (m.logit_softcap > 0) return "soft-capped logits";
  if (m.moe && m.mlp_bias) return "biases of experts";
  return {};
}

void build_chunk(GraphBuilder& b, Experiment const& e, StepProgram const& p, Chunk const& chunk) {
  ModelConfig const& m = e.model;
  Residual stream;
  stream.base = chunk.has_embedding && e.scope == Scope::model ? build_embedding(b, m, p) : b.chunk_input();
  for (std::int64_t layer = chunk.first_layer; layer < chunk.first_layer + chunk.layers; ++layer)
    build_block(b, m, layer, stream);
  if (chunk.has_head && e.scope == Scope::model) {
    build_head(b, m, p, stream);
    return;
  }
  b.set_layer(-1);
  if (stream.pending.valid()) b.set_layer(chunk.first_layer + chunk.layers - 1);
  b.chunk_output(stream.pending.valid() ? b.add(stream.base, stream.pending) : stream.base);
  b.set_layer(-1);
}

}  // namespace shardbench
