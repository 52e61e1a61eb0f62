#include "harness/program/models/model_graph.hpp"

#include <fmt/format.h>

#include "harness/program/graph/convolution.hpp"
#include "harness/program/graph/embedding.hpp"
#include "harness/program/graph/inference.hpp"
#include "harness/program/graph/linear.hpp"
#include "harness/program/graph/loss.hpp"
#include "harness/program/graph/norm.hpp"
#include "harness/program/graph/redistribute.hpp"
#include "harness/program/models/model_blocks.hpp"
#include "harness/program/models/model_graph_conv.hpp"
#include "harness/program/models/model_graph_vision.hpp"

namespace shardbench {

namespace {

Value embed_words(Tape& t, TensorId ids) {
  Value const x = embedding(t, "embedding.word", t.program.vocab, t.program.padded_vocab, ids);
  return redistribute_to_block(t, x, "embedding.reduce");
}

Value build_embedding(Tape& t) {
  Value x = embed_words(t, t.program.inputs.ids);
  if (t.model.position == PositionKind::learned) x = add_positions(t, x, "embedding.position", t.model.max_positions);
  return enter(t, dropout(t, x, "embedding.dropout"));
}

/// The head's weight, which in a tied model is the embedding's: on the stage that has both the very same one, elsewhere
/// a copy under the embedding's name, whose gradients are summed.
LinearSpec head_spec(Tape const& t) {
  LinearSpec head{"head", "head", {{"", t.program.vocab, t.program.padded_vocab}}, t.model.hidden};
  if (t.model.tied_embeddings) head.weight_name = head.role = "embedding.word";
  head.shared_weight = t.find_parameter((t.model.tied_embeddings ? head.weight_name : head.name) + ".weight");
  return head;
}

/// Some rows of a value. Their gradients are columns of one tensor, which `dx` of the whole is.
Value some_rows(Tape& t, Value x, DimRange rows, TensorRef dx) {
  std::int64_t const cols = t[x].cols, first = rows.begin * cols;
  Value const part = t.value_of(behind(t[x].ref, first), t[x].name, rows.size, cols, t[x].layout);
  t.on_backward([=, &t] {
    Gradient const& g = *t[part].gradient;
    pack(t, g.ref, behind(dx, first), rows.size, cols, "head.dx");
    if (first == 0) t.accumulate(x, dx, g.layout);  // the last to be walked
  });
  return part;
}

/// Logits of x and their loss, in as many pieces of the tokens as the step asks for: backward computes the logits of a
/// piece again, so that those of one piece are all there are.
void head_and_loss(Tape& t, Value x, LossTerm term) {
  LinearSpec head = head_spec(t);
  std::int64_t const pieces = t.experiment.loss_chunks, targets = t.program.seq;
  if (pieces == 1) return loss(t, linear(t, x, head), first_row(t, head), targets, term);
  x = all_rows(t, x);
  std::int64_t const rows = t[x].rows;
  TensorRef const dx = t.temporary(term.name + ".dx", rows, t[x].cols);
  std::string const name = term.name;
  for (std::int64_t i = 0; i < pieces; ++i) {
    DimRange const range = chunk_range(rows, pieces, i);
    if (range.size == 0) break;
    Value const part = some_rows(t, x, range, dx);
    head = head_spec(t);  // the first piece made its weight
    std::int32_t const before = t.set_stretch(t.new_stretch());
    Value const logits = linear(t, part, head);
    t.set_stretch(before);
    term.name = fmt::format("{}.{}", name, i), term.first_target = range.begin;
    loss(t, logits, first_row(t, head), targets, term);
    term.adds = true;
  }
}

/// Predicts the token after the next and so on (DeepSeek-V3 report, section 2.2): a layer projects the residual stream
/// before it and the embedding of the token ahead, both normed, and ends in the head; the embedding is shared too.
void build_prediction(Tape& t, Value hidden) {
  std::int64_t const width = t.model.hidden;
  double const weight = t.experiment.mtp_weight / static_cast<double>(t.experiment.mtp);
  TensorId ids = t.program.inputs.targets;
  for (std::int64_t k = 0; k < t.experiment.mtp; ++k) {
    std::string const name = fmt::format("mtp.{}", k);
    t.set_layer(-1);
    Value const ahead = dropout(t, embed_words(t, ids), name + ".dropout");
    ids = t.program.inputs.future_tokens[k];
    Value const normed = norm(t, hidden, name + ".hidden_norm");
    Value const both = concat(t, {normed, norm(t, ahead, name + ".embedding_norm")}, name + ".concat");
    LinearSpec const projection{name + ".projection", "mtp.projection", {{"", width, width}}, 2 * width};
    Residual residual{redistribute_to_block(t, linear(t, both, projection), name + ".projection.gather"), {}};
    build_block(t, t.model.layers + k, residual);
    t.set_layer(-1);
    Value const x = norm(t, residual, name + ".norm");
    hidden = residual.base;
    head_and_loss(t, x, {.targets = ids, .weight = weight, .name = name + ".loss", .adds = true});
  }
}

void build_head(Tape& t, Residual residual) {
  t.set_layer(-1);
  if (t.program.inference.on) {
    // Only the last position of each sample chooses a token.
    residual.base = last_position(t, residual.base);
    if (residual.pending.valid()) residual.pending = last_position(t, residual.pending);
  }
  Value const x = norm(t, residual, "final_norm");
  if (t.program.inference.on) {
    LinearSpec const head = head_spec(t);
    greedy(t, linear(t, x, head), first_row(t, head));
  } else {
    head_and_loss(t, x, {.targets = t.program.inputs.targets});
  }
  build_prediction(t, residual.base);
}

}  // namespace

std::string unsupported_part(ModelConfig const& m, bool with_head) {
  if (m.moe && m.mlp_bias) return "biases of experts";
  if (with_head && m.labels > 0) return "a score of the last token in place of a head (scope layer runs the blocks)";
  if (with_head && m.headless) return "a bare model without a head (scope layer runs its blocks)";
  return {};
}

void build_chunk(Tape& t) {
  ModelConfig const& m = t.model;
  Chunk const chunk = t.chunk();
  bool const outer = t.experiment.scope == Scope::model;
  if (m.yolo) return build_yolo(t, *m.yolo, outer);
  Residual residual;
  if (chunk.has_embedding && outer)
    residual.base = m.vision ? build_image_embedding(t) : build_embedding(t);
  else
    residual.base = enter(t, chunk_input(t));
  std::int64_t const end = chunk.first_layer + chunk.layers;
  for (std::int64_t layer = chunk.first_layer; layer < end; ++layer) build_block(t, layer, residual);
  if (chunk.has_head && outer) return m.vision ? build_image_head(t, residual) : build_head(t, residual);
  // What is still pending is added in the last layer.
  t.set_layer(residual.pending.valid() ? end - 1 : -1);
  chunk_output(t, residual.pending.valid() ? add(t, residual.base, residual.pending) : residual.base);
}

}  // namespace shardbench
