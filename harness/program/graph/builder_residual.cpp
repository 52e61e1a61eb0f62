// How branches join the residual stream, with dropout and with biases that private channels have of their own.
#include <algorithm>

#include "harness/program/graph/graph_builder.hpp"

namespace shardbench {

namespace {

constexpr auto tp_axis = static_cast<std::size_t>(Axis::tp);

/// The generator's key of a place in the model; the runner mixes seed and step into it.
std::uint64_t site_of(std::string const& name) {
  std::uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
  for (char const c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

}  // namespace

DropoutShape GraphBuilder::dropout_shape(std::string const& name, std::int64_t rows, std::int64_t cols) const {
  // Rows of several streams that are one sample's drop the same elements, as ranks do.
  bool const streams = rows > program_.local_seq * program_.micro_batch;
  DropoutShape s{rows, cols, program_.micro_batch * (streams ? streams_ : 1), streams ? streams_ : 1, 0, 0};
  s.rate = static_cast<float>(experiment_.dropout);
  s.site = site_of(qualified(name));
  return s;
}

TensorRef GraphBuilder::positions_of(Value x) {
  if (!is_shard(state(x).layout[tp_axis], sequence_dim)) return {program_.inputs.positions, 0, 0};
  std::int64_t const places = state(x).rows / program_.micro_batch;
  return {program_.inputs.positions, program_.coordinate[tp_axis] * places, 0};
}

Value GraphBuilder::enter(Value x) {
  if (streams_ > 1) return expand_streams(x);
  return private_block() ? redistribute(x, block_, "residual.enter") : x;
}

Value GraphBuilder::dropout(Value x, std::string const& name) {
  return experiment_.dropout > 0 ? join({}, x, name) : x;
}

Value GraphBuilder::join(Value stream, Value branch, std::string const& name) {
  if (stream.valid()) branch = redistribute(branch, state(stream).layout, state(branch).name + ".reduce");
  std::int64_t const rows = state(branch).rows, cols = state(branch).cols;
  Layout const layout = state(branch).layout;
  std::int32_t const bias = state(branch).late_bias;
  DropoutShape const shape = dropout_shape(name, rows, cols);
  TensorRef const bias_ref =
      bias < 0 ? TensorRef{} : TensorRef{program_.parameters[static_cast<std::size_t>(bias)].weight, 0, 0};
  TensorRef const positions = positions_of(branch);
  Value const sum = new_value(name, rows, cols, state(branch).global_cols, layout);
  emit(make_op(OpKind::dropout, shape, name,
               {state(branch).ref, bias_ref, stream.valid() ? state(stream).ref : TensorRef{}, positions},
               {state(sum).ref}));
  on_backward([=, this] {
    TensorRef const dy = take_gradient(sum);
    Layout const dy_layout = state(sum).gradient->layout;
    TensorRef dbranch = dy;
    if (shape.rate > 0) {
      dbranch = temporary(name + ".dx", rows, cols);
      emit(make_op(OpKind::dropout, shape, name + ".dx", {dy, {}, {}, positions}, {dbranch}));
    }
    if (stream.valid()) accumulate(stream, dy, dy_layout);
    accumulate(branch, dbranch, dy_layout);
    if (bias < 0) return;
    auto const& p = program_.parameters[static_cast<std::size_t>(bias)];
    Op db = make_op(OpKind::column_sum, BlockShape{rows, cols, 1}, name + ".db", {dbranch}, {{p.gradient, 0, 0}});
    writes_gradient(db, bias, layout);
    emit(std::move(db));
  });
  return sum;
}

}  // namespace shardbench
