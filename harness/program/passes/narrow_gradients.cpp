#include "harness/program/passes/narrow_gradients.hpp"

#include <algorithm>

namespace shardbench {

namespace {

bool sums_in_fp32(OpKind kind) {
  return kind != OpKind::gemm && kind != OpKind::grouped_gemm && !is_communication(kind);
}

/// The op writes a temporary of fp32 in the gradient's place; what follows it rounds, and adds where the op did.
std::vector<Op> rounded(Tape& t, Op& op, TensorRef& gradient) {
  Tensor const narrow = t.program.tensors[gradient.id];
  BlockShape const shape{1, narrow.elements(), 1};
  auto const temporary = [&](char const* what, Dtype dtype) {
    return TensorRef{t.new_tensor(narrow.name + what, TensorRole::temporary, dtype, narrow.rows, narrow.cols)};
  };
  TensorRef const sum = temporary(".sum", Dtype::f32), part = temporary(".rounded", narrow.dtype);
  std::string const name = t.program.labels[op.label].name + ".round";
  std::vector<Op> ops{t.make_op(OpKind::copy_block, shape, name, {sum}, {part}),
                      t.make_op(OpKind::copy_block, shape, name, {part}, {gradient})};
  for (Op& copy : ops) copy.part = op.part, copy.layer = op.layer, copy.when = op.when;
  ops[1].accumulate = op.accumulate, ops[1].always_accumulate = op.always_accumulate;
  gradient = sum;
  return ops;
}

}  // namespace

void narrow_gradients(Tape& t, std::vector<Op>& backward) {
  if (t.experiment.gradient_dtype == Dtype::f32) return;
  auto const is_gradient = [&](TensorRef const& ref) {
    return ref.valid() && t.program.tensors[ref.id].role == TensorRole::gradient;
  };
  t.set_phase("backward");
  std::vector<Op> out;
  for (Op& op : backward) {
    std::vector<Op> after;
    bool const redirected = sums_in_fp32(op.kind);
    for (TensorRef& ref : op.outputs)
      if (redirected && is_gradient(ref)) std::ranges::move(rounded(t, op, ref), std::back_inserter(after));
    if (!after.empty()) op.accumulate = op.always_accumulate = false;
    out.push_back(std::move(op));
    std::ranges::move(after, std::back_inserter(out));
  }
  backward = std::move(out);
}

}  // namespace shardbench
