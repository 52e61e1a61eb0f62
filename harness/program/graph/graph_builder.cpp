#include "harness/program/graph/graph_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "harness/program/graph/context_blocks.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

GraphBuilder::GraphBuilder(StepProgram& program, Strategy const& strategy, Experiment const& experiment,
                           std::map<std::string, std::int32_t> groups)
    : program_(program),
      strategy_(strategy),
      experiment_(experiment),
      model_(experiment.model),
      groups_(std::move(groups)),
      streams_(experiment.cut.streams) {
  block_.fill(Replicate{});
  bool const chunked = experiment.cut.tp_overlap == TpOverlap::chunked && experiment.cut.tp > 1;
  if (chunked) overlap_chunks_ = experiment.cut.tp_overlap_chunks;
  auto const degree = [&](Axis a) { return program_.degree[static_cast<std::size_t>(a)]; };
  if (degree(Axis::tp) > 1) block_[static_cast<std::size_t>(Axis::tp)] = strategy_.block;
  if (degree(Axis::cp) > 1)
    block_[static_cast<std::size_t>(Axis::cp)] = Shard{sequence_dim, context_layout(model_, experiment_.cut.cp_method)};
  if (degree(Axis::dp) > 1) block_[static_cast<std::size_t>(Axis::dp)] = Shard{batch_dim};
}

void GraphBuilder::begin_chunk(std::int32_t chunk) {
  chunk_ = chunk;
  layer_ = -1;
  phase_ = "forward";
  part_ = BackwardPart::input;
  values_.clear();
  tape_.clear();
  pieces_.clear();
  forward_.clear();
  backward_.clear();
  out_ = &forward_;
  gradient_written_.assign(program_.parameters.size(), false);
}

Op& GraphBuilder::emit(Op op) {
  for (auto const* refs : {&op.inputs, &op.outputs})
    for (TensorRef const& ref : *refs)
      if (auto const it = pieces_.find(ref.id); it != pieces_.end())
        op.after.insert(op.after.end(), it->second.begin(), it->second.end());
  return out_->emplace_back(std::move(op));
}

void GraphBuilder::set_layer(std::int64_t layer) { layer_ = static_cast<std::int32_t>(layer); }

std::string GraphBuilder::qualified(std::string const& name) const {
  return layer_ < 0 ? name : fmt::format("layers.{}.{}", layer_, name);
}

std::int32_t GraphBuilder::label(std::string const& name, OpKind kind, Axis axis) {
  auto const key = std::make_tuple(name, phase_, kind, axis);
  auto const [it, fresh] = label_ids_.try_emplace(key, static_cast<std::int32_t>(program_.labels.size()));
  if (fresh) program_.labels.push_back({name, phase_, kind, axis});
  return it->second;
}

std::int32_t GraphBuilder::group_id(std::string const& name) const {
  auto const it = groups_.find(name);
  VALIDATE(it != groups_.end(), fmt::format("no communication group '{}'", name));
  return it->second;
}

TensorId GraphBuilder::new_tensor(std::string const& name, TensorRole role, Dtype dtype, std::int64_t rows,
                                  std::int64_t cols) {
  Tensor t;
  t.name = name;
  t.role = role;
  t.dtype = dtype;
  t.rows = t.global_rows = rows;
  t.cols = t.global_cols = cols;
  t.expected_rows = static_cast<double>(rows);
  t.chunk = chunk_;
  program_.tensors.push_back(std::move(t));
  return static_cast<TensorId>(program_.tensors.size() - 1);
}

Value GraphBuilder::value_of(TensorRef ref, std::string const& name, std::int64_t rows, std::int64_t cols,
                             std::int64_t global_cols, Layout const& layout) {
  program_.tensors[static_cast<std::size_t>(ref.id)].placement = layout;
  ValueState v;
  v.name = name;
  v.ref = ref;
  v.rows = rows;
  v.cols = cols;
  v.global_cols = global_cols;
  v.layout = layout;
  v.layer = layer_;
  values_.push_back(std::move(v));
  return {static_cast<std::int32_t>(values_.size() - 1)};
}

Value GraphBuilder::new_value(std::string const& name, std::int64_t rows, std::int64_t cols, std::int64_t global_cols,
                              Layout const& layout) {
  TensorId const id = new_tensor(qualified(name), TensorRole::temporary, program_.precision, rows, cols);
  return value_of({id, 0, 0}, name, rows, cols, global_cols, layout);
}

Op GraphBuilder::make_op(OpKind kind, OpShape shape, std::string const& name, std::vector<TensorRef> inputs,
                         std::vector<TensorRef> outputs) {
  Op op;
  op.kind = kind;
  op.shape = std::move(shape);
  op.inputs = std::move(inputs);
  op.outputs = std::move(outputs);
  op.part = part_;
  op.flop_class = flop_class_;
  op.attention_core = core_;
  op.layer = layer_;
  op.label = label(name, kind, Axis::size_);
  return op;
}

namespace {

/// Collectives of different axes never wait for one another; those billed to pp but not point-to-point ride on dp's
/// queue.
StreamId stream_of(Axis axis) {
  switch (axis) {
    case Axis::tp:
      return StreamId::tp;
    case Axis::cp:
      return StreamId::cp;
    case Axis::ep:
      return StreamId::ep;
    default:
      return StreamId::dp;
  }
}

}  // namespace

Op GraphBuilder::make_collective(OpKind kind, std::int32_t group, std::int64_t count, Dtype dtype,
                                 std::string const& name, TensorRef from, TensorRef to) {
  Axis const axis = program_.groups[static_cast<std::size_t>(group)].axis;
  Op op = make_op(kind, CollectiveShape{count, dtype, PartialOp::sum, static_cast<double>(count)}, name, {from}, {to});
  op.stream = stream_of(axis);
  op.group = group;
  op.label = label(name, kind, axis);
  return op;
}

// --- moving values between layouts ---

Value GraphBuilder::redistribute(Value x, Layout const& to, std::string const& name) {
  if (state(x).layout == to) return x;
  // Two readers (the branches of a parallel block) share one collective, forwards and backwards.
  if (Value const moved = state(x).moved; moved.valid() && state(moved).layout == to) return moved;
  // The collective belongs to the layer that made x, although the next one may ask for it.
  std::int32_t const asking = std::exchange(layer_, state(x).layer);
  std::int64_t rows = state(x).rows, cols = state(x).cols;
  TensorRef const moved = move(state(x).ref, rows, cols, state(x).layout, to, name);
  Value const y = value_of(moved, state(x).name, rows, cols, state(x).global_cols, to);
  state(y).gathered_from = x;
  state(x).moved = y;
  state(y).late_bias = state(x).late_bias;
  on_backward([this, x, y, name] {
    auto gradient = state(y).gradient;
    if (!gradient) return;
    // The raw gradient goes straight to where x's gradient belongs: a partial sum is reduced and cut in one step.
    Layout target{};
    for (std::size_t a = 0; a < axis_count; ++a) {
      Placement const &before = state(x).layout[a], &after = state(y).layout[a];
      // Where a sum was synchronised in part, so is its gradient.
      target[a] = is_partial(before) && is_private(after) ? after : gradient_placement(before);
    }
    std::int64_t g_rows = state(y).rows, g_cols = state(y).cols;
    TensorRef const g = move(gradient->ref, g_rows, g_cols, gradient->layout, target, name);
    accumulate(x, g, target);
  });
  layer_ = asking;
  return y;
}

TensorRef GraphBuilder::move(TensorRef x, std::int64_t& rows, std::int64_t& cols, Layout from, Layout const& to,
                             std::string const& name) {
  // The slowest axis cuts first: the context axis cuts the sequence, the tensor axis cuts what that leaves.
  auto steps = shardbench::redistribute({from.rbegin(), from.rend()}, {to.rbegin(), to.rend()});
  for (auto& step : steps) {
    step.axis = axis_count - 1 - step.axis;
    x = move_step(x, rows, cols, step, name);
  }
  return x;
}

TensorRef GraphBuilder::pack(TensorRef x, std::int64_t rows, std::int64_t cols, std::int64_t from_stride, TensorRef to,
                             std::int64_t to_stride, std::string const& name, float scale) {
  x.stride = from_stride;
  to.stride = to_stride;
  emit(make_op(OpKind::copy_block, BlockShape{rows, cols, scale}, name + ".pack", {x}, {to}));
  return to;
}

TensorRef GraphBuilder::zigzag_rows(TensorRef x, std::int64_t rows, std::int64_t cols, std::int64_t ranks,
                                    bool to_ranks, std::string const& name) {
  TensorRef const y{new_tensor(qualified(name), TensorRole::temporary, program_.precision, rows, cols), 0, 0};
  std::int64_t const pieces = 2 * ranks, size = rows / pieces * cols;
  for (std::int64_t i = 0; i < pieces; ++i) {
    // The i-th piece in the ranks' order is a rank's first or its second, which counts from the end.
    std::int64_t const piece = i % 2 == 0 ? i / 2 : pieces - 1 - i / 2;
    std::int64_t const from = to_ranks ? piece : i, to = to_ranks ? i : piece;
    pack({x.id, x.offset + from * size, 0}, rows / pieces, cols, cols, {y.id, to * size, 0}, cols, name);
  }
  return y;
}

TensorRef GraphBuilder::move_step(TensorRef x, std::int64_t& rows, std::int64_t& cols, RedistributeStep const& step,
                                  std::string const& name) {
  Axis const axis = static_cast<Axis>(step.axis);
  std::int64_t const n = program_.degree[step.axis], index = program_.coordinate[step.axis];
  std::int32_t const group = group_id(std::string(to_string(axis)));
  Dtype const dtype = program_.precision;
  auto const fresh = [&](std::int64_t r, std::int64_t c) {
    return TensorRef{new_tensor(qualified(name), TensorRole::temporary, dtype, r, c), 0, 0};
  };
  auto const cut = [&](std::int64_t length, char const* what) {
    if (length % n != 0)
      throw IllegalConfig(fmt::format("{}: {} {} does not divide by {}={}", name, what, length, to_string(axis), n));
    return length / n;
  };
  auto const dim_of = [](Placement const& p) {
    int const dim = is_shard(p) ? std::get<Shard>(p).dim : -1;
    return dim == inner_feature_dim ? feature_dim : dim;
  };
  auto const zigzag = [](Placement const& p) {
    return is_shard(p) && std::get<Shard>(p).layout == ShardLayout::zigzag;
  };
  int const to_dim = dim_of(step.to), from_dim = dim_of(step.from);
  switch (step.transition) {
    case Transition::none:
      return x;
    case Transition::all_reduce:
      emit(make_collective(OpKind::all_reduce, group, rows * cols, dtype, name, x, x));
      return x;
    case Transition::reduce_scatter: {
      TensorRef from = x;
      if (to_dim == feature_dim) {
        // Columns are brought block after block so that the collective cuts whole blocks.
        std::int64_t const part = cut(cols, "width");
        from = fresh(rows * n, part);
        for (std::int64_t i = 0; i < n; ++i)
          pack({x.id, x.offset + i * part, 0}, rows, part, cols, {from.id, i * rows * part, 0}, part, name);
        TensorRef const y = fresh(rows, part);
        emit(make_collective(OpKind::reduce_scatter, group, rows * cols, dtype, name, from, y));
        cols = part;
        return y;
      }
      if (zigzag(step.to)) from = zigzag_rows(x, rows, cols, n, true, name);
      TensorRef const y = fresh(cut(rows, "rows"), cols);
      emit(make_collective(OpKind::reduce_scatter, group, rows * cols, dtype, name, from, y));
      rows /= n;
      return y;
    }
    case Transition::all_gather: {
      TensorRef y = fresh(rows * n, cols);
      emit(make_collective(OpKind::all_gather, group, rows * n * cols, dtype, name, x, y));
      if (from_dim == feature_dim) {
        TensorRef const wide = fresh(rows, cols * n);
        for (std::int64_t i = 0; i < n; ++i)
          pack({y.id, i * rows * cols, 0}, rows, cols, cols, {wide.id, i * cols, 0}, cols * n, name);
        cols *= n;
        return wide;
      }
      rows *= n;
      return zigzag(step.from) ? zigzag_rows(y, rows, cols, n, false, name) : y;
    }
    case Transition::all_to_all: {
      VALIDATE(
          (from_dim == sequence_dim && to_dim == feature_dim) || (from_dim == feature_dim && to_dim == sequence_dim),
          fmt::format("{}: activations move between sequence and feature cuts only", name));
      if (to_dim == feature_dim) {
        std::int64_t const part = cut(cols, "width");
        TensorRef const y = fresh(rows * n, part);
        TensorRef const packed = fresh(rows * cols, 1);
        for (std::int64_t i = 0; i < n; ++i)
          pack({x.id, x.offset + i * part, 0}, rows, part, cols, {packed.id, i * rows * part, 0}, part, name);
        emit(make_collective(OpKind::all_to_all, group, rows * cols, dtype, name, packed, y));
        rows *= n;
        cols = part;
        return y;
      }
      std::int64_t const part = cut(rows, "rows");
      TensorRef const y = fresh(rows, cols);
      emit(make_collective(OpKind::all_to_all, group, rows * cols, dtype, name, x, y));
      TensorRef const wide = fresh(part, cols * n);
      for (std::int64_t i = 0; i < n; ++i)
        pack({y.id, i * part * cols, 0}, part, cols, cols, {wide.id, i * cols, 0}, cols * n, name);
      rows = part;
      cols *= n;
      return wide;
    }
    case Transition::local_slice: {
      if (to_dim == feature_dim) {
        std::int64_t const part = cut(cols, "width");
        TensorRef const y = fresh(rows, part);
        pack({x.id, x.offset + index * part, 0}, rows, part, x.stride > 0 ? x.stride : cols, y, part, name);
        cols = part;
        return y;
      }
      if (zigzag(step.to)) x = zigzag_rows(x, rows, cols, n, true, name);
      std::int64_t const part = cut(rows, "rows");
      TensorRef const y = fresh(part, cols);
      pack({x.id, x.offset + index * part * cols, 0}, part, cols, cols, y, cols, name);
      rows = part;
      return y;
    }
    case Transition::partial_sync: {
      std::int64_t const synced = std::get<Private>(step.to).synced;
      if (synced > cols)
        throw IllegalConfig(
            fmt::format("{}: {} has more channels than the {} there are", name, to_string(step.to), cols));
      return sync_part(x, rows, cols, synced, name);
    }
    case Transition::private_copy:
      return x;
  }
  throw Error(fmt::format("{}: {} to {} has no lowering", name, to_string(step.from), to_string(step.to)));
}

Value GraphBuilder::redistribute_to_block(Value x, std::string const& name) {
  Layout to = block_;
  for (Placement& placement : to)
    if (is_private(placement)) placement = Replicate{};
  return redistribute(x, to, name);
}

// --- gradients ---

void GraphBuilder::on_backward(std::function<void()> step) { tape_.emplace_back(layer_, std::move(step)); }

void GraphBuilder::accumulate(Value v, TensorRef gradient, Layout const& layout) {
  auto& slot = state(v).gradient;
  if (!slot) {
    slot = Gradient{gradient, layout};
    return;
  }
  if (slot->layout != layout) {
    // A partial sum (of a cut branch) meets a whole gradient: both go where the value's gradient belongs.
    take_gradient(v);
    Layout const target = state(v).gradient->layout;
    std::int64_t rows = state(v).rows, cols = state(v).cols;
    gradient = move(gradient, rows, cols, layout, target, state(v).name);
    return accumulate(v, gradient, target);
  }
  TensorRef const sum{new_tensor(qualified(state(v).name + ".gradient"), TensorRole::temporary, program_.precision,
                                 state(v).rows, state(v).cols),
                      0, 0};
  emit(make_op(OpKind::add, BlockShape{state(v).rows, state(v).cols, 1}, state(v).name + ".sum", {slot->ref, gradient},
               {sum}));
  slot->ref = sum;
}

TensorRef GraphBuilder::take_gradient(Value v) {
  auto& s = state(v);
  if (!s.gradient) return {};
  Layout target{};
  Gradient const g = *s.gradient;
  for (std::size_t a = 0; a < axis_count; ++a)
    target[a] = is_private(g.layout[a]) ? g.layout[a] : gradient_placement(s.layout[a]);
  std::int64_t rows = s.rows, cols = s.cols;
  std::string const name = s.name;
  TensorRef const moved = move(g.ref, rows, cols, g.layout, target, name);
  state(v).gradient = Gradient{moved, target};
  return moved;
}

void GraphBuilder::derive_backward() {
  out_ = &backward_;
  phase_ = "backward";
  for (auto it = tape_.rbegin(); it != tape_.rend(); ++it) {
    layer_ = it->first;
    part_ = BackwardPart::input;
    it->second();
  }
  part_ = BackwardPart::input;
  layer_ = -1;
}

}  // namespace shardbench
