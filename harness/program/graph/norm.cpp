#include "harness/program/graph/norm.hpp"

#include "harness/program/graph/parameters.hpp"
#include "harness/program/graph/redistribute.hpp"

namespace shardbench {

namespace {

ParameterId add_norm_weight(Tape& t, std::string const& name, std::int64_t cols) {
  // Where the family adds an offset to the weight, the weight itself starts at zero.
  InitKind const init = t.model.norm_weight_offset > 0 ? InitKind::zeros : InitKind::ones;
  return add_uncut(t, t.qualified(name + ".weight"), cols, 1, init);
}

NormShape norm_shape(Tape const& t, std::int64_t rows, std::int64_t cols) {
  return {t.model.norm, rows, cols, t.model.norm_eps, t.model.norm_weight_offset};
}

/// What one norm op reads and writes beside its gradients.
struct NormOp {
  std::string name;
  NormShape shape;
  Layout layout;
  ParameterId weight, bias;
  TensorRef mean, rstd;
};

/// Backward of y = norm(sum): dx is the gradient of the sum, and so of x and of what was pending.
void norm_backward(Tape& t, NormOp const& n, Value y, Value x, Value pending, Value sum) {
  TensorRef const dy = t.take_gradient(y), dsum = t.take_gradient(sum);
  TensorRef const dx = t.temporary(n.name + ".dx", n.shape.rows, n.shape.cols);
  NormShape shape = n.shape;
  shape.residual = dsum.valid();
  Op& op = t.emit(OpKind::norm_backward, shape, n.name, {dy, t[sum].ref, t.weight(n.weight), n.mean, n.rstd, dsum},
                  {dx, t.gradient(n.weight), t.gradient(n.bias)});
  t.writes_gradient(op, n.weight, n.layout);
  if (n.bias.valid()) t.writes_gradient(op, n.bias, n.layout);
  op.part = BackwardPart::input;  // dx comes from the same pass over the data
  // The gradient of private copies is a term of theirs.
  Gradient const gradient{dx, gradient_layout(n.layout)};
  t[sum].gradient.reset();
  if (pending.valid()) t.accumulate(pending, gradient.ref, gradient.layout);
  t[x].gradient = gradient;
}

}  // namespace

Value norm(Tape& t, Value x, std::string const& name) {
  Residual alone{x, {}};
  return norm(t, alone, name);
}

Value norm(Tape& t, Residual& residual, std::string const& name) {
  // A norm reads whole rows.
  Value const x = all_columns(t, residual.base);
  Value pending = residual.pending;
  std::int64_t const rows = t[x].rows, cols = t[x].cols;
  bool const layer_norm = t.model.norm == NormKind::layer_norm;
  NormOp n{name, norm_shape(t, rows, cols), t[x].layout, add_norm_weight(t, name, cols), {}, {}, {}};
  if (layer_norm && t.model.norm_bias) n.bias = add_uncut(t, t.qualified(name + ".bias"), cols, 1, InitKind::zeros);
  if (pending.valid()) pending = t.redistribute(pending, n.layout, t[pending].name + ".reduce");
  n.shape.residual = pending.valid();
  Value const y = t.value(name, rows, cols, n.layout);
  if (layer_norm) n.mean = t.temporary(name + ".mean", Dtype::f32, rows, 1);
  n.rstd = t.temporary(name + ".rstd", Dtype::f32, rows, 1);
  Value const sum = pending.valid() ? t.value(name + ".residual", rows, cols, n.layout) : x;
  TensorRef const none;
  t.emit(OpKind::norm_forward, n.shape, name,
         {t[x].ref, pending.valid() ? t[pending].ref : none, t.weight(n.weight), t.weight(n.bias)},
         {t[y].ref, n.mean, n.rstd, pending.valid() ? t[sum].ref : none});
  residual = {sum, {}};
  t.on_backward([=, &t] { norm_backward(t, n, y, x, pending, sum); });
  return y;
}

VectorNorm vector_norm(Tape& t, std::string const& name, std::int64_t rows, std::int64_t count, std::int64_t cols,
                       TensorRef x, TensorRef y, Layout layout) {
  VectorNorm n{name, add_norm_weight(t, name, cols), norm_shape(t, rows, cols), x};
  n.shape.heads = count;
  if (t.model.norm == NormKind::layer_norm) n.mean = t.temporary(name + ".mean", Dtype::f32, rows, count);
  n.rstd = t.temporary(name + ".rstd", Dtype::f32, rows, count);
  // Heads are rows here: a rank that has some of them has a part of the weight's gradient.
  n.layout = is_shard(layout[Axis::tp], feature_dim) ? with(layout, Axis::tp, Shard{sequence_dim}) : layout;
  t.emit(OpKind::norm_forward, n.shape, name, {x, {}, t.weight(n.weight), {}}, {y, n.mean, n.rstd, {}});
  return n;
}

void vector_norm_backward(Tape& t, VectorNorm const& n, TensorRef dy, TensorRef dx) {
  Op& op = t.emit(OpKind::norm_backward, n.shape, n.name, {dy, n.x, t.weight(n.weight), n.mean, n.rstd, {}},
                  {dx, t.gradient(n.weight), {}});
  t.writes_gradient(op, n.weight, n.layout);
  op.part = BackwardPart::input;  // dx comes from the same pass over the data
}

}  // namespace shardbench
