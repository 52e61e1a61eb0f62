#include "harness/program/model_graph.hpp"

#include <fmt/format.h>

#include "harness/program/model_blocks.hpp"
#include "harness/program/model_graph_conv.hpp"
#include "harness/program/model_graph_vision.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

Value build_embedding(GraphBuilder& b, ModelConfig const& m, StepProgram const& p) {
  b.set_layer(-1);
  Value x = b.embedding("embedding.word", "embedding.word", p.vocab, p.padded_vocab, p.ids);
  x = b.redistribute_to_block(x, "embedding.reduce");
  if (m.position == PositionKind::learned) x = b.add_positions(x, "embedding.position", m.max_positions);
  return b.enter(b.dropout(x, "embedding.dropout"));
}

void build_head(GraphBuilder& b, ModelConfig const& m, StepProgram const& p, Residual stream) {
  b.set_layer(-1);
  if (p.inference) {
    // Only the last position of each sample chooses a token.
    stream.base = b.last_position(stream.base);
    if (stream.pending.valid()) stream.pending = b.last_position(stream.pending);
  }
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
  if (p.inference)
    b.greedy(logits, b.first_row(head));
  else
    b.loss(logits, b.first_row(head), p.seq);
}

}  // namespace

std::string unsupported_part(ModelConfig const& m) {
  if (m.moe && m.mlp_bias) return "biases of experts";
  return {};
}

void build_chunk(GraphBuilder& b, Experiment const& e, StepProgram const& p, Chunk const& chunk) {
  ModelConfig const& m = e.model;
  if (m.yolo) {
    build_yolo(b, *m.yolo, e.scope == Scope::model);
    return;
  }
  Residual stream;
  bool const outer = e.scope == Scope::model;
  if (chunk.has_embedding && outer)
    stream.base = m.vision ? build_image_embedding(b, m) : build_embedding(b, m, p);
  else
    stream.base = b.enter(b.chunk_input());
  for (std::int64_t layer = chunk.first_layer; layer < chunk.first_layer + chunk.layers; ++layer)
    build_block(b, m, layer, stream);
  if (chunk.has_head && outer) {
    if (m.vision)
      build_image_head(b, m, p, stream.base, stream.pending);
    else
      build_head(b, m, p, stream);
    return;
  }
  b.set_layer(-1);
  if (stream.pending.valid()) b.set_layer(chunk.first_layer + chunk.layers - 1);
  b.chunk_output(stream.pending.valid() ? b.add(stream.base, stream.pending) : stream.base);
  b.set_layer(-1);
}

}  // namespace shardbench
