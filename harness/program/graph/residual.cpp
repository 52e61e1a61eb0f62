// The residual stream: where it enters and leaves a chunk, and how branches join it, with dropout and with biases that
// private channels have of their own.
#include "harness/program/graph/residual.hpp"

#include <fmt/format.h>

#include "harness/program/graph/parameters.hpp"
#include "harness/program/graph/redistribute.hpp"
#include "harness/program/graph/streams.hpp"

namespace shardbench {

namespace {

/// The generator's key of a place in the model; the runner mixes seed and step into it.
std::uint64_t site_of(std::string const& name) {
  std::uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
  for (char const c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

/// The part of a dropout op that does not depend on its operands.
DropoutShape dropout_shape(Tape const& t, std::string const& name, std::int64_t rows, std::int64_t cols) {
  // Rows of several residual streams that are one sample's drop the same elements, as ranks do.
  std::int64_t const copies =
      rows > t.program.local_seq * t.program.micro_batch ? residual_streams(t) : std::int64_t{1};
  DropoutShape s{rows, cols, t.program.micro_batch * copies, copies};
  s.rate = static_cast<float>(t.experiment.dropout);
  s.site = site_of(t.qualified(name));
  return s;
}

/// A tensor at a border of the chunk, made when the pipeline has not.
TensorId border(Tape& t, TensorId& id, char const* what, Matrix const& x) {
  auto const chunk = &t.chunk() - t.program.chunks.data();
  if (!id.valid())
    id = t.new_tensor(fmt::format("chunk{}.{}", chunk, what), TensorRole::activation, t.program.precision, x.rows,
                      x.cols);
  return id;
}

}  // namespace

Value chunk_input(Tape& t) {
  Layout const& block = t.block_layout();
  std::int64_t rows = t.program.local_seq * t.program.micro_batch;
  if (is_shard(block[Axis::tp], sequence_dim)) rows /= t.program.degree[Axis::tp];
  std::int64_t const cols = t.model.hidden;
  Value const x = t.value_of({border(t, t.chunk().input, "input", {{}, rows, cols})}, "input", rows, cols, block);
  t.on_backward(x, [=, &t](TensorRef g) {
    // The gradient leaves the chunk under its own name: what is sent may not be an alias of something still in use.
    TensorId const leaving = border(t, t.chunk().input_gradient, "input_gradient", t[x].matrix());
    t.emit(OpKind::copy_block, BlockShape{rows, cols}, "input.gradient", {g}, {TensorRef{leaving}});
  });
  return x;
}

void chunk_output(Tape& t, Value x) {
  if (residual_streams(t) > 1) x = sum_streams(t, x);
  Matrix const out = t[x].matrix();
  TensorId const output = border(t, t.chunk().output, "output", out);
  TensorId const arriving = border(t, t.chunk().output_gradient, "output_gradient", out);
  t[x].gradient = Gradient{{arriving}, gradient_layout(t[x].layout)};
  t.end_in(x, output);
}

Value add(Tape& t, Value a, Value b) {
  b = t.redistribute(b, t[a].layout, t[b].name + ".reduce");
  ValueState const& first = t[a];
  Value const y = t.value("residual", first.rows, first.cols, first.layout, first.global_cols);
  t.emit(OpKind::add, BlockShape{first.rows, first.cols}, "residual", {first.ref, t[b].ref}, {t[y].ref});
  t.on_backward(y, [=, &t](TensorRef dy) {
    for (Value const term : {a, b}) t.accumulate(term, dy, t[y].gradient->layout);
  });
  return y;
}

Value enter(Tape& t, Value x) {
  if (residual_streams(t) > 1) return expand_streams(t, x);
  return has_private_blocks(t) ? t.redistribute(x, t.block_layout(), "residual.enter") : x;
}

bool joins_at_once(Tape const& t) { return t.experiment.dropout > 0 || has_private_blocks(t); }

Value dropout(Tape& t, Value x, std::string const& name) { return t.experiment.dropout > 0 ? join(t, {}, x, name) : x; }

Value join(Tape& t, Value residual, Value branch, std::string const& name) {
  if (residual.valid()) branch = t.redistribute(branch, t[residual].layout, t[branch].name + ".reduce");
  ValueState const& b = t[branch];
  std::int64_t const rows = b.rows, cols = b.cols;
  Layout const layout = b.layout;
  ParameterId const bias = b.late_bias;
  DropoutShape const shape = dropout_shape(t, name, rows, cols);
  TensorRef const positions = positions_of(t, branch), base = residual.valid() ? t[residual].ref : TensorRef{};
  Value const sum = t.value(name, rows, cols, layout, b.global_cols);
  t.emit(OpKind::dropout, shape, name, {b.ref, t.weight(bias), base, positions}, {t[sum].ref});
  t.on_backward(sum, [=, &t](TensorRef dy) {
    Layout const dy_layout = t[sum].gradient->layout;
    TensorRef dbranch = dy;
    if (shape.rate > 0) {
      dbranch = t.temporary(name + ".dx", rows, cols);
      t.emit(OpKind::dropout, shape, name + ".dx", {dy, {}, {}, positions}, {dbranch});
    }
    if (residual.valid()) t.accumulate(residual, dy, dy_layout);
    t.accumulate(branch, dbranch, dy_layout);
    emit_bias_gradient(t, dbranch, rows, cols, bias, layout, name);
  });
  return sum;
}

}  // namespace shardbench
