#include "harness/program/models/model_graph.hpp"

#include <fmt/format.h>

#include "harness/program/models/model_blocks.hpp"
#include "harness/program/models/model_graph_conv.hpp"
#include "harness/program/models/model_graph_vision.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

Value build_embedding(GraphBuilder& b, ModelConfig const& m, StepProgram const& p) {
  b.set_layer(-1);
  Value x = b.embedding("embedding.word", "embedding.word", p.vocab, p.padded_vocab, p.inputs.ids);
  x = b.redistribute_to_block(x, "embedding.reduce");
  if (m.position == PositionKind::learned) x = b.add_positions(x, "embedding.position", m.max_positions);
  return b.enter(b.dropout(x, "embedding.dropout"));
}

/// The head's weight, which in a tied model is the embedding's: on the stage that has both the very same one, elsewhere
/// a copy under the embedding's name, whose gradients are summed.
LinearSpec head_spec(GraphBuilder const& b, ModelConfig const& m, StepProgram const& p) {
  LinearSpec head{"head", "head", {{"", p.vocab, p.padded_vocab, 0, false}}, m.hidden, false, -1};
  if (m.tied_embeddings) head.weight_name = head.role = "embedding.word";
  head.shared_weight = b.parameter_index((m.tied_embeddings ? head.weight_name : head.name) + ".weight");
  return head;
}

/// Predicts the token after the next and so on (DeepSeek-V3 report, section 2.2): a layer projects the stream before it
/// and the embedding of the token ahead, both normed, and ends in the head; the embedding is shared too.
void build_prediction(GraphBuilder& b, Experiment const& e, StepProgram const& p, Value hidden) {
  ModelConfig const& m = e.model;
  for (std::int64_t k = 0; k < e.mtp; ++k) {
    auto const at = static_cast<std::size_t>(k);
    std::string const name = fmt::format("mtp.{}", k);
    b.set_layer(-1);
    Value ahead = b.embedding("embedding.word", "embedding.word", p.vocab, p.padded_vocab,
                              k == 0 ? p.inputs.targets : p.inputs.future_tokens[at - 1]);
    ahead = b.dropout(b.redistribute_to_block(ahead, "embedding.reduce"), name + ".dropout");
    Value const normed = b.norm(hidden, {}, name + ".hidden_norm", nullptr);
    Value const both = b.concat({normed, b.norm(ahead, {}, name + ".embedding_norm", nullptr)}, name + ".concat");
    LinearSpec const projection{
        name + ".projection", "mtp.projection", {{"", m.hidden, m.hidden, 0, false}}, 2 * m.hidden, false, -1};
    Residual stream{b.redistribute_to_block(b.linear(both, projection), name + ".projection.gather"), {}};
    build_block(b, m, m.layers + k, stream);
    b.set_layer(-1);
    Value const x = b.norm(stream.base, stream.pending, name + ".norm", &hidden);
    LinearSpec const head = head_spec(b, m, p);
    b.loss(b.linear(x, head), b.first_row(head), p.seq,
           {p.inputs.future_tokens[at], e.mtp_weight / static_cast<double>(e.mtp), name + ".loss", true});
  }
}

void build_head(GraphBuilder& b, Experiment const& e, StepProgram const& p, Residual stream) {
  ModelConfig const& m = e.model;
  b.set_layer(-1);
  if (p.inference.on) {
    // Only the last position of each sample chooses a token.
    stream.base = b.last_position(stream.base);
    if (stream.pending.valid()) stream.pending = b.last_position(stream.pending);
  }
  Value last;
  Value const x = b.norm(stream.base, stream.pending, "final_norm", &last);
  LinearSpec const head = head_spec(b, m, p);
  Value const logits = b.linear(x, head);
  if (p.inference.on)
    b.greedy(logits, b.first_row(head));
  else
    b.loss(logits, b.first_row(head), p.seq, {.targets = p.inputs.targets});
  build_prediction(b, e, p, last);
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
      build_head(b, e, p, stream);
    return;
  }
  b.set_layer(-1);
  if (stream.pending.valid()) b.set_layer(chunk.first_layer + chunk.layers - 1);
  b.chunk_output(stream.pending.valid() ? b.add(stream.base, stream.pending) : stream.base);
  b.set_layer(-1);
}

}  // namespace shardbench
