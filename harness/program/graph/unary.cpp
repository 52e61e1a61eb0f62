#include "harness/program/graph/unary.hpp"

#include "harness/program/graph/module_scope.hpp"
#include "harness/program/graph/redistribute.hpp"

namespace shardbench {

namespace {

std::vector<TensorRef> joined(TensorRef first, std::vector<TensorRef> const& others) {
  std::vector<TensorRef> all{first};
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

}  // namespace

void unary(Tape& t, UnaryOp const& op, Value x, Value y, std::string const& name) {
  t.emit(op.forward, op.shape, name, {t[x].ref}, joined(t[y].ref, op.saved));
  t.on_backward([=, &t] {
    std::vector<TensorRef> inputs = joined(t.take_gradient(y), op.saved);
    if (op.reads_input) inputs.push_back(t[x].ref);
    TensorRef const dx = t.temporary(name + ".dx", t[x].rows, t[x].cols);
    t.emit(op.backward, op.shape, name, std::move(inputs), {dx});
    t.accumulate(x, dx);
  });
}

Value activation(Tape& t, Value up, std::int64_t columns) {
  up = whole(t, up);
  ModuleScope const scope(t, RecomputeModule::activation);
  bool const gated = t.model.gated_mlp;
  std::int64_t const rows = t[up].rows, cols = gated ? t[up].cols / 2 : t[up].cols;
  Value const y = t.value("mlp.activation", rows, cols, t[up].layout, columns);
  ActivationShape const shape{t.model.activation, gated, rows, cols};
  unary(t, {OpKind::activation_forward, OpKind::activation_backward, shape, true}, up, y, "mlp.activation");
  return y;
}

}  // namespace shardbench
