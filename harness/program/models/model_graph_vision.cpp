#include "harness/program/models/model_graph_vision.hpp"

#include "harness/program/graph/embedding.hpp"
#include "harness/program/graph/linear.hpp"
#include "harness/program/graph/loss.hpp"
#include "harness/program/graph/norm.hpp"
#include "harness/program/graph/redistribute.hpp"
#include "harness/program/graph/vision.hpp"

namespace shardbench {

Value build_image_embedding(Tape& t) {
  VisionConfig const& v = *t.model.vision;
  Value const cut =
      patches(t, image(t, v.image_size, v.image_size, v.channels), v.image_size, v.patch_size, v.channels);
  LinearSpec projection =
      whole_weight("embedding.patch", t.model.hidden, v.patch_size * v.patch_size * v.channels, v.patch_bias);
  projection.input_gradient = false;
  Value x = linear(t, cut, projection);
  if (v.class_token) x = with_class_token(t, x, "embedding.class");
  x = redistribute_to_block(t, x, "embedding.cut");
  x = add_positions(t, x, "embedding.position", t.model.max_positions);
  x = dropout(t, x, "embedding.dropout");
  return v.pre_norm ? norm(t, x, "pre_norm") : x;
}

void build_image_head(Tape& t, Residual residual) {
  t.set_layer(-1);
  VisionConfig const& v = *t.model.vision;
  StepProgram const& p = t.program;
  Value x = pool_rows(t, norm(t, residual, "final_norm"), 0, v.class_token ? 1 : p.seq, "pool");
  std::int64_t width = t.model.hidden;
  if (v.projection > 0) {
    x = linear(t, x, whole_weight("projection", v.projection, width));
    width = v.projection;
  }
  if (!t.model.has_classifier()) return loss(t, x, 0, 1, {.targets = p.inputs.targets});
  LinearSpec const head{"head", "head", {{"", p.vocab, p.padded_vocab}}, width, true};
  loss(t, linear(t, x, head), first_row(t, head), 1, {.targets = p.inputs.targets});
}

}  // namespace shardbench
