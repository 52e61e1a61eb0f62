#include "harness/program/models/model_graph_vision.hpp"

namespace shardbench {

Value build_image_embedding(GraphBuilder& b, ModelConfig const& m) {
  b.set_layer(-1);
  VisionConfig const& v = *m.vision;
  Value const image = b.image(v.image_size, v.image_size, v.channels);
  Value const patches = b.patches(image, v.image_size, v.patch_size, v.channels);
  LinearSpec projection{"embedding.patch",
                        "embedding.patch",
                        {{"", m.hidden, m.hidden, 0, false}},
                        v.patch_size * v.patch_size * v.channels,
                        v.patch_bias,
                        -1};
  projection.input_gradient = false;
  Value x = b.linear(patches, projection);
  if (v.class_token) x = b.with_class_token(x, "embedding.class");
  x = b.redistribute_to_block(x, "embedding.cut");
  x = b.add_positions(x, "embedding.position", m.max_positions);
  x = b.dropout(x, "embedding.dropout");
  return v.pre_norm ? b.norm(x, {}, "pre_norm", nullptr) : x;
}

void build_image_head(GraphBuilder& b, ModelConfig const& m, StepProgram const& p, Value base, Value pending) {
  b.set_layer(-1);
  VisionConfig const& v = *m.vision;
  Value const normed = b.norm(base, pending, "final_norm", nullptr);
  Value x = b.pool_rows(normed, 0, v.class_token ? 1 : p.seq, "pool");
  std::int64_t width = m.hidden;
  if (v.projection > 0) {
    x = b.linear(x, {"projection", "projection", {{"", v.projection, v.projection, 0, false}}, width, false, -1});
    width = v.projection;
  }
  if (!m.has_classifier()) {
    b.loss(x, 0, 1, {.targets = p.inputs.targets});
    return;
  }
  LinearSpec const head{"head", "head", {{"", p.vocab, p.padded_vocab, 0, false}}, width, true, -1};
  Value const logits = b.linear(x, head);
  b.loss(logits, b.first_row(head), 1, {.targets = p.inputs.targets});
}

}  // namespace shardbench
