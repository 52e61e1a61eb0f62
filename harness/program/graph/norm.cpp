#include "harness/program/graph/norm.hpp"

#include "harness/program/graph/module_scope.hpp"
#include "harness/program/graph/parameters.hpp"
#include "harness/program/graph/redistribute.hpp"

namespace shardbench {

namespace {

/// A norm of rows of `cols`, with its weight.
NormOp norm_of(Tape& t, std::string const& name, std::int64_t rows, std::int64_t cols, Layout const& layout,
               std::optional<float> eps) {
  ModelConfig const& m = t.model;
  // Where the family adds an offset to the weight, the weight itself starts at zero.
  InitKind const init = m.norm_weight_offset > 0 ? InitKind::zeros : InitKind::ones;
  ParameterId const weight = add_uncut(t, t.qualified(name + ".weight"), cols, 1, init);
  return {name, {m.norm, rows, cols, eps.value_or(m.norm_eps), m.norm_weight_offset}, layout, weight, {}};
}

void add_statistics(Tape& t, NormOp& n) {
  if (n.shape.kind == NormKind::layer_norm)
    n.mean = t.temporary(n.name + ".mean", Dtype::f32, n.shape.rows, n.shape.heads);
  n.rstd = t.temporary(n.name + ".rstd", Dtype::f32, n.shape.rows, n.shape.heads);
}

}  // namespace

Value norm(Tape& t, Value x, std::string const& name, std::optional<float> eps) {
  Residual alone{x, {}};
  return norm(t, alone, name, eps);
}

Value norm(Tape& t, Residual& residual, std::string const& name, std::optional<float> eps) {
  // A norm reads whole rows.
  Value const x = all_columns(t, residual.base);
  Value pending = residual.pending;
  std::int64_t const rows = t[x].rows, cols = t[x].cols;
  Layout const layout = t[x].layout;
  NormOp n = norm_of(t, name, rows, cols, layout, eps);
  if (t.model.norm == NormKind::layer_norm && t.model.norm_bias)
    n.bias = add_uncut(t, t.qualified(name + ".bias"), cols, 1, InitKind::zeros);
  if (pending.valid()) pending = t.redistribute(pending, layout, t[pending].name + ".reduce");
  ModuleScope const scope(t, RecomputeModule::layernorm);
  n.shape.residual = pending.valid();
  Value const y = t.value(name, rows, cols, layout);
  add_statistics(t, n);
  Value const sum = pending.valid() ? t.value(name + ".residual", rows, cols, layout) : x;
  t[sum].stretch = -1;  // the residual stream stays: what repeats the norm reads it
  n.x = t[sum].ref;
  TensorRef const none, term = pending.valid() ? t[pending].ref : none, summed = pending.valid() ? t[sum].ref : none;
  t.emit(OpKind::norm_forward, n.shape, name, {t[x].ref, term, t.weight(n.weight), t.weight(n.bias)},
         {t[y].ref, n.mean, n.rstd, summed});
  residual = {sum, {}};
  t.on_backward(y, [=, &t](TensorRef dy) {
    TensorRef const dsum = t.take_gradient(sum), dx = t.temporary(name + ".dx", rows, cols);
    norm_backward(t, n, dy, dx, dsum);
    // dx is the gradient of the sum, and so of both its terms; that of private copies is a term of theirs.
    Gradient const gradient{dx, gradient_layout(layout)};
    t[sum].gradient.reset();
    if (pending.valid()) t.accumulate(pending, gradient.ref, gradient.layout);
    t[x].gradient = gradient;
  });
  return y;
}

NormOp vector_norm(Tape& t, std::string const& name, std::int64_t rows, std::int64_t count, std::int64_t cols,
                   TensorRef x, TensorRef y, Layout const& layout, std::optional<float> eps) {
  // Heads are rows here: a rank that has some of them has a part of the weight's gradient.
  bool const some = is_shard(layout[Axis::tp], feature_dim);
  NormOp n = norm_of(t, name, rows, cols, some ? with(layout, Axis::tp, Shard{sequence_dim}) : layout, eps);
  n.shape.heads = count;
  n.x = x;
  add_statistics(t, n);
  t.emit(OpKind::norm_forward, n.shape, name, {x, {}, t.weight(n.weight), {}}, {y, n.mean, n.rstd, {}});
  return n;
}

void norm_backward(Tape& t, NormOp const& n, TensorRef dy, TensorRef dx, TensorRef dsum) {
  NormShape shape = n.shape;
  shape.residual = dsum.valid();
  Op& op = t.emit(OpKind::norm_backward, shape, n.name, {dy, n.x, t.weight(n.weight), n.mean, n.rstd, dsum},
                  {dx, t.gradient(n.weight), t.gradient(n.bias)});
  t.writes_gradient(op, n.weight, n.layout);
  if (n.bias.valid()) t.writes_gradient(op, n.bias, n.layout);
  op.part = BackwardPart::input;  // dx comes from the same pass over the data
}

}  // namespace shardbench
