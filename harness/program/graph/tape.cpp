#include "harness/program/graph/tape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "harness/program/graph/context_blocks.hpp"
#include "harness/program/graph/redistribute.hpp"
#include "harness/schedule/schedule_rules.hpp"

namespace shardbench {

Tape::Tape(StepProgram& p, Strategy const& s, Experiment const& e)
    : program(p), strategy(s), experiment(e), model(e.model) {
  block_.fill(Replicate{});
  if (p.degree[Axis::tp] > 1) block_[Axis::tp] = s.block;
  if (p.degree[Axis::cp] > 1) block_[Axis::cp] = Shard{sequence_dim, context_layout(model, e.cut.cp_method)};
  if (p.degree[Axis::dp] > 1) block_[Axis::dp] = Shard{batch_dim};
}

void Tape::begin_chunk(std::int32_t chunk) {
  chunk_ = chunk;
  layer_ = stretch_ = -1;
  phase_ = "forward";
  values_.clear();
  steps_.clear();
  slices_.clear();
  forward_.clear();
  backward_.clear();
  out_ = &forward_;
  gradient_written_.assign(program.parameters.size(), false);
}

std::string Tape::qualified(std::string const& name) const {
  return layer_ < 0 ? name : fmt::format("layers.{}.{}", layer_, name);
}

// --- tensors and values ---

TensorId Tape::new_tensor(std::string const& name, TensorRole role, Dtype dtype, std::int64_t rows, std::int64_t cols) {
  return program.tensors.add({.name = name,
                              .role = role,
                              .dtype = dtype,
                              .rows = rows,
                              .cols = cols,
                              .expected_rows = static_cast<double>(rows),
                              .global_rows = rows,
                              .global_cols = cols,
                              .chunk = chunk_});
}

TensorRef Tape::temporary(std::string const& name, std::int64_t rows, std::int64_t cols) {
  return temporary(name, program.precision, rows, cols);
}

TensorRef Tape::temporary(std::string const& name, Dtype dtype, std::int64_t rows, std::int64_t cols) {
  return {new_tensor(qualified(name), TensorRole::temporary, dtype, rows, cols)};
}

TensorRef Tape::slice_apart(TensorRef whole, DimRange rows) {
  Tensor const root = program.tensors[whole.id];
  TensorRef const slice{new_tensor(root.name + ".piece", root.role, root.dtype, rows.size, root.cols)};
  Tensor& t = program.tensors[slice.id];
  t.storage = whole.id;
  t.storage_offset = rows.begin * root.cols;
  t.apart = true;
  slices_[whole.id].push_back(slice);
  return slice;
}

Value Tape::value(std::string const& name, std::int64_t rows, std::int64_t cols, Layout const& layout,
                  std::int64_t global_cols) {
  return value_of(temporary(name, rows, cols), name, rows, cols, layout, global_cols);
}

Value Tape::value_of(TensorRef ref, std::string const& name, std::int64_t rows, std::int64_t cols, Layout const& layout,
                     std::int64_t global_cols) {
  program.tensors[ref.id].placement = layout;
  values_.push_back({.name = name,
                     .ref = ref,
                     .rows = rows,
                     .cols = cols,
                     .global_cols = global_cols > 0 ? global_cols : cols,
                     .layout = layout,
                     .layer = layer_,
                     .stretch = stretch_});
  return {static_cast<std::int32_t>(std::ssize(values_) - 1)};
}

void Tape::end_in(Value x, TensorId output) {
  Matrix const out = (*this)[x].matrix();
  Op const* const last = forward_.empty() ? nullptr : &forward_.back();
  if (!last) {
    // A chunk without layers hands on what it was given.
    emit(OpKind::copy_block, BlockShape{out.rows, out.cols}, "output", {out.ref}, {TensorRef{output}});
    return;
  }
  if (last && last->stream != StreamId::compute && last->inputs[0].id != last->outputs[0].id) {
    // Compute has to wait for a collective that ends a chunk, or what the collective reads would never be free.
    emit(OpKind::copy_block, BlockShape{out.rows, out.cols}, "output", {out.ref}, {TensorRef{output}});
    return;
  }
  for (Op& op : forward_)
    for (auto* refs : {&op.inputs, &op.outputs})
      for (TensorRef& ref : *refs)
        if (ref.id == out.ref.id) ref.id = output;
  for (ValueState& v : values_)
    if (v.ref.id == out.ref.id) v.ref.id = output;
}

// --- ops ---

LabelId Tape::label(std::string const& name, OpKind kind, Axis axis) {
  auto const [it, fresh] = label_ids_.try_emplace({name, phase_, kind, axis});
  if (fresh) it->second = program.labels.add({name, phase_, kind, axis});
  return it->second;
}

Op Tape::make_op(OpKind kind, OpShape shape, std::string const& name, std::vector<TensorRef> inputs,
                 std::vector<TensorRef> outputs) {
  return {.kind = kind,
          .shape = std::move(shape),
          .inputs = std::move(inputs),
          .outputs = std::move(outputs),
          .after = {},
          .group = {},
          .stretch = stretch_,
          .layer = layer_,
          .label = label(name, kind, Axis::size_)};
}

namespace {

/// Collectives of different axes never wait for one another; those billed to pp but not point-to-point ride on dp's
/// queue.
constexpr EnumArray<Axis, StreamId> queues{{StreamId::tp, StreamId::cp, StreamId::dp, StreamId::dp, StreamId::ep}};

}  // namespace

Op Tape::make_collective(OpKind kind, GroupId group, std::int64_t count, Dtype dtype, std::string const& name,
                         TensorRef from, TensorRef to) {
  Axis const axis = program.groups[group].axis;
  Op op = make_op(kind, CollectiveShape{count, dtype, PartialOp::sum, static_cast<double>(count)}, name, {from}, {to});
  op.stream = queues[axis];
  op.group = group;
  op.label = label(name, kind, axis);
  return op;
}

Op& Tape::emit(Op op) {
  for (auto const* refs : {&op.inputs, &op.outputs})
    for (TensorRef const& ref : *refs)
      if (auto const it = slices_.find(ref.id); it != slices_.end())
        op.after.insert(op.after.end(), it->second.begin(), it->second.end());
  return out_->emplace_back(std::move(op));
}

Op& Tape::emit(OpKind kind, OpShape shape, std::string const& name, std::vector<TensorRef> inputs,
               std::vector<TensorRef> outputs) {
  return emit(make_op(kind, std::move(shape), name, std::move(inputs), std::move(outputs)));
}

Op& Tape::emit_collective(OpKind kind, GroupId group, std::int64_t count, std::string const& name, TensorRef from,
                          TensorRef to) {
  return emit(make_collective(kind, group, count, program.precision, name, from, to));
}

// --- layouts and gradients ---

Value Tape::redistribute(Value x, Layout const& to, std::string const& name) {
  ValueState& from = (*this)[x];
  if (from.layout == to) return x;
  // Two readers (the branches of a parallel block) share one collective, forwards and backwards.
  if (from.moved.valid() && (*this)[from.moved].layout == to) return from.moved;
  // The collective belongs to the layer that made x, although the next one may ask for it.
  std::int32_t const asking = std::exchange(layer_, from.layer);
  // A sum is settled with the product whose terms it has; what is gathered, with those who ask for the whole.
  bool const settles = std::ranges::any_of(from.layout, is_partial);
  std::int32_t const reader = settles ? std::exchange(stretch_, from.stretch) : stretch_;
  Matrix const moved = move_to(*this, from.matrix(), from.layout, to, name);
  Value const y = value_of(moved.ref, from.name, moved.rows, moved.cols, to, from.global_cols);
  from.moved = y;
  (*this)[y].gathered_from = x;
  (*this)[y].late_bias = from.late_bias;
  on_backward([this, x, y, name] {
    ValueState const &before = (*this)[x], &after = (*this)[y];
    if (!after.gradient) return;
    // The raw gradient goes straight to where x's gradient belongs: a partial sum is reduced and cut in one step.
    Layout target = gradient_layout(before.layout);
    for (Axis const axis : enum_values<Axis>())
      // Where a sum was synchronised in part, so is its gradient.
      if (is_partial(before.layout[axis]) && is_private(after.layout[axis])) target[axis] = after.layout[axis];
    Gradient const& g = *after.gradient;
    accumulate(x, move_to(*this, {g.ref, after.rows, after.cols}, g.layout, target, name).ref, target);
  });
  layer_ = asking;
  stretch_ = reader;
  return y;
}

void Tape::on_backward(std::function<void()> step) { steps_.emplace_back(layer_, std::move(step)); }

void Tape::on_backward(Value y, std::function<void(TensorRef)> step) {
  on_backward([this, y, step = std::move(step)] { step(take_gradient(y)); });
}

void Tape::accumulate(Value v, TensorRef gradient, Layout const& layout) {
  ValueState& x = (*this)[v];
  if (!x.gradient) {
    x.gradient = Gradient{gradient, layout};
    return;
  }
  if (x.gradient->layout != layout) {
    // A partial sum (of a cut branch) meets a whole gradient: both go where the value's gradient belongs.
    take_gradient(v);
    Layout const target = x.gradient->layout;
    return accumulate(v, move_to(*this, {gradient, x.rows, x.cols}, layout, target, x.name).ref, target);
  }
  TensorRef const sum = temporary(x.name + ".gradient", x.rows, x.cols);
  emit(OpKind::add, BlockShape{x.rows, x.cols}, x.name + ".sum", {x.gradient->ref, gradient}, {sum});
  x.gradient->ref = sum;
}

TensorRef Tape::take_gradient(Value v) {
  ValueState& x = (*this)[v];
  if (!x.gradient) return {};
  Gradient const g = *x.gradient;
  Layout target = gradient_layout(x.layout);
  for (Axis const axis : enum_values<Axis>())
    if (is_private(g.layout[axis])) target[axis] = g.layout[axis];
  x.gradient = Gradient{move_to(*this, {g.ref, x.rows, x.cols}, g.layout, target, x.name).ref, target};
  return x.gradient->ref;
}

void Tape::derive_backward() {
  out_ = &backward_;
  phase_ = "backward";
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    layer_ = step->first;
    step->second();
  }
  layer_ = -1;
}

// --- parameters ---

ParameterId Tape::add_parameter(Parameter p) {
  p.chunk = chunk_;
  for (ParameterSection& section : p.sections)
    if (section.tp_copies == 0) section.tp_copies = program.degree[Axis::tp];
  // Where every piece lies on two stages, the copy of the second direction is counted once with the first.
  if (rules_of(program.schedule.kind).mirrored() && program.direction_of(chunk_) == 1) p.copy = true;
  p.weight = new_tensor(p.name, TensorRole::parameter, program.precision, p.rows, p.cols);
  if (experiment.phase == PhaseKind::train)
    p.gradient = new_tensor(p.name + ".gradient", TensorRole::gradient, experiment.gradient_dtype, p.rows, p.cols);
  for (TensorId const id : {p.weight, p.gradient}) {
    if (!id.valid()) continue;
    Tensor& t = program.tensors[id];
    t.global_rows = 0;
    for (ParameterSection const& section : p.sections) t.global_rows += section.global_rows;
    t.global_cols = p.global_cols;
  }
  gradient_partial.emplace_back();
  gradient_written_.push_back(false);
  ParameterId& id = parameter_by_name_[{p.name, chunk_}];
  return id = program.parameters.add(std::move(p));
}

ParameterId Tape::find_parameter(std::string const& name) const {
  auto const it = parameter_by_name_.find({name, chunk_});
  return it == parameter_by_name_.end() ? ParameterId{} : it->second;
}

TensorRef Tape::weight(ParameterId parameter) const {
  return parameter.valid() ? TensorRef{program.parameters[parameter].weight} : TensorRef{};
}

TensorRef Tape::gradient(ParameterId parameter) const {
  return parameter.valid() ? TensorRef{program.parameters[parameter].gradient} : TensorRef{};
}

void Tape::writes_gradient(Op& op, ParameterId parameter, Layout const& rows_layout) {
  // A weight that two ops use (tied head): the first to run overwrites in the first microbatch, the second always adds.
  op.accumulate = !gradient_written_[parameter];
  op.always_accumulate = gradient_written_[parameter];
  op.part = BackwardPart::weight;
  gradient_written_[parameter] = true;
  for (Axis const axis : enum_values<Axis>()) {
    Placement const& rows = rows_layout[axis];
    if (is_shard(rows, sequence_dim) || is_shard(rows, batch_dim) || is_private(rows))
      gradient_partial[parameter][axis] = true;
  }
}

}  // namespace shardbench
