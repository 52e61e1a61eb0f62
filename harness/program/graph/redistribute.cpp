#include "harness/program/graph/redistribute.hpp"

#include <fmt/format.h>

#include "harness/program/graph/streams.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

void pack(Tape& t, TensorRef from, TensorRef to, std::int64_t rows, std::int64_t cols, std::string const& name,
          float scale) {
  for (TensorRef* const x : {&from, &to})
    if (x->stride == 0) x->stride = cols;
  t.emit(OpKind::copy_block, BlockShape{rows, cols, scale}, name + ".pack", {from}, {to});
}

namespace {

constexpr int no_dim = -1;

/// The tensor dim that a placement cuts.
int cut_dim(Placement const& p) {
  int const dim = is_shard(p) ? std::get<Shard>(p).dim : no_dim;
  return dim == inner_feature_dim ? feature_dim : dim;
}

bool is_zigzag(Placement const& p) { return is_shard(p) && std::get<Shard>(p).layout == ShardLayout::zigzag; }

/// One step of a redistribution, along one axis of the mesh.
struct Crossing {
  Tape& t;
  std::string const& name;
  RedistributeStep const& step;
  Axis axis;
  std::int64_t ranks = t.program.degree[axis], rank = t.program.coordinate[axis];
  GroupId group = id_of(group_of(axis));

  Matrix fresh(std::int64_t rows, std::int64_t cols) const { return {t.temporary(name, rows, cols), rows, cols}; }

  /// A rank's part of `length` rows (or columns).
  std::int64_t part_of(std::int64_t length, char const* what) const {
    if (length % ranks != 0)
      throw IllegalConfig(
          fmt::format("{}: {} {} does not divide by {}={}", name, what, length, to_string(axis), ranks));
    return length / ranks;
  }
};

/// The columns that each rank gets, rank after rank: what a collective cuts in whole blocks.
void stack_columns(Crossing const& c, Matrix const& x, std::int64_t part, TensorRef to) {
  for (std::int64_t i = 0; i < c.ranks; ++i)
    pack(c.t, columns(x.ref, i * part, x.cols), behind(to, i * x.rows * part), x.rows, part, c.name);
}

/// The inverse: blocks [rows, cols], rank after rank in `stacked`, side by side.
Matrix side_by_side(Crossing const& c, TensorRef stacked, std::int64_t rows, std::int64_t cols) {
  Matrix const wide = c.fresh(rows, cols * c.ranks);
  for (std::int64_t i = 0; i < c.ranks; ++i)
    pack(c.t, behind(stacked, i * rows * cols), columns(wide.ref, i * cols, wide.cols), rows, cols, c.name);
  return wide;
}

/// Rows of the whole sequence, from their order in it to that of the ranks that hold its zigzag pieces, or back.
Matrix zigzag_rows(Crossing const& c, Matrix const& x, bool to_ranks) {
  Matrix const y = c.fresh(x.rows, x.cols);
  std::int64_t const pieces = 2 * c.ranks, rows = x.rows / pieces, size = rows * x.cols;
  for (std::int64_t i = 0; i < pieces; ++i) {
    // The i-th piece in the ranks' order is a rank's first or its second, which counts from the end.
    std::int64_t const piece = i % 2 == 0 ? i / 2 : pieces - 1 - i / 2;
    std::int64_t const from = to_ranks ? piece : i, to = to_ranks ? i : piece;
    pack(c.t, behind(x.ref, from * size), behind(y.ref, to * size), rows, x.cols, c.name);
  }
  return y;
}

Matrix all_reduce(Crossing const& c, Matrix const& x) {
  c.t.emit_collective(OpKind::all_reduce, c.group, x.rows * x.cols, c.name, x.ref, x.ref);
  return x;
}

Matrix reduce_scatter(Crossing const& c, Matrix const& x) {
  TensorRef from = x.ref;
  bool const by_columns = cut_dim(c.step.to) == feature_dim;
  std::int64_t const cols = by_columns ? c.part_of(x.cols, "width") : x.cols;
  if (by_columns) {
    from = c.fresh(x.rows * c.ranks, cols).ref;
    stack_columns(c, x, cols, from);
  } else if (is_zigzag(c.step.to)) {
    from = zigzag_rows(c, x, true).ref;
  }
  Matrix const y = c.fresh(by_columns ? x.rows : c.part_of(x.rows, "rows"), cols);
  c.t.emit_collective(OpKind::reduce_scatter, c.group, x.rows * x.cols, c.name, from, y.ref);
  return y;
}

Matrix all_gather(Crossing const& c, Matrix const& x) {
  Matrix const y = c.fresh(x.rows * c.ranks, x.cols);
  c.t.emit_collective(OpKind::all_gather, c.group, y.rows * y.cols, c.name, x.ref, y.ref);
  if (cut_dim(c.step.from) == feature_dim) return side_by_side(c, y.ref, x.rows, x.cols);
  return is_zigzag(c.step.from) ? zigzag_rows(c, y, false) : y;
}

Matrix all_to_all(Crossing const& c, Matrix const& x) {
  int const from = cut_dim(c.step.from), to = cut_dim(c.step.to);
  VALIDATE((from == sequence_dim && to == feature_dim) || (from == feature_dim && to == sequence_dim),
           fmt::format("{}: activations move between sequence and feature cuts only", c.name));
  std::int64_t const count = x.rows * x.cols;
  if (to == feature_dim) {
    std::int64_t const part = c.part_of(x.cols, "width");
    Matrix const y = c.fresh(x.rows * c.ranks, part), stacked = c.fresh(count, 1);
    stack_columns(c, x, part, stacked.ref);
    c.t.emit_collective(OpKind::all_to_all, c.group, count, c.name, stacked.ref, y.ref);
    return y;
  }
  std::int64_t const part = c.part_of(x.rows, "rows");
  Matrix const y = c.fresh(x.rows, x.cols);
  c.t.emit_collective(OpKind::all_to_all, c.group, count, c.name, x.ref, y.ref);
  return side_by_side(c, y.ref, part, x.cols);
}

Matrix local_slice(Crossing const& c, Matrix x) {
  if (cut_dim(c.step.to) == feature_dim) {
    Matrix const y = c.fresh(x.rows, c.part_of(x.cols, "width"));
    std::int64_t const stride = x.ref.stride > 0 ? x.ref.stride : x.cols;
    pack(c.t, columns(x.ref, c.rank * y.cols, stride), y.ref, x.rows, y.cols, c.name);
    return y;
  }
  if (is_zigzag(c.step.to)) x = zigzag_rows(c, x, true);
  Matrix const y = c.fresh(c.part_of(x.rows, "rows"), x.cols);
  pack(c.t, behind(x.ref, c.rank * y.rows * y.cols), y.ref, y.rows, y.cols, c.name);
  return y;
}

Matrix partial_sync(Crossing const& c, Matrix const& x) {
  std::int64_t const synced = std::get<Private>(c.step.to).synced;
  if (synced > x.cols)
    throw IllegalConfig(
        fmt::format("{}: {} has more channels than the {} there are", c.name, to_string(c.step.to), x.cols));
  return {sync_channels(c.t, x, synced, c.name), x.rows, x.cols};
}

Matrix cross(Crossing const& c, Matrix const& x) {
  switch (c.step.transition) {
    case Transition::none:
    case Transition::private_copy:
      return x;
    case Transition::all_reduce:
      return all_reduce(c, x);
    case Transition::reduce_scatter:
      return reduce_scatter(c, x);
    case Transition::all_gather:
      return all_gather(c, x);
    case Transition::all_to_all:
      return all_to_all(c, x);
    case Transition::local_slice:
      return local_slice(c, x);
    case Transition::partial_sync:
      return partial_sync(c, x);
  }
  throw Error(fmt::format("{}: {} to {} has no lowering", c.name, to_string(c.step.from), to_string(c.step.to)));
}

}  // namespace

Matrix move_to(Tape& t, Matrix x, Layout const& from, Layout const& to, std::string const& name) {
  // The slowest axis cuts first: the context axis cuts the sequence, the tensor axis cuts what that leaves.
  for (RedistributeStep const& step : redistribute({from.rbegin(), from.rend()}, {to.rbegin(), to.rend()}))
    x = cross({t, name, step, static_cast<Axis>(axis_count - 1 - step.axis)}, x);
  return x;
}

Value redistribute_along(Tape& t, Value x, Axis axis, Placement const& to, std::string const& name) {
  return t.redistribute(x, with(t[x].layout, axis, to), name);
}

Value redistribute_to_block(Tape& t, Value x, std::string const& name) {
  Layout to = t.block_layout();
  for (Placement& placement : to)
    if (is_private(placement)) placement = Replicate{};
  return t.redistribute(x, to, name);
}

namespace {

/// x without a cut of `dim` over tp, and summed.
Value uncut(Tape& t, Value x, int dim) {
  Placement const& now = t[x].layout[Axis::tp];
  if (!is_partial(now) && !is_shard(now, dim)) return x;
  return redistribute_along(t, x, Axis::tp, Replicate{}, t[x].name + (is_partial(now) ? ".reduce" : ".gather"));
}

}  // namespace

Value whole(Tape& t, Value x) { return uncut(t, x, no_dim); }
Value all_rows(Tape& t, Value x) { return uncut(t, x, sequence_dim); }
Value all_columns(Tape& t, Value x) { return uncut(t, x, feature_dim); }

TensorRef own_part(Tape& t, TensorId buffer, Value x, std::int64_t count) {
  return {buffer, is_shard(t[x].layout[Axis::tp], sequence_dim) ? t.program.coordinate[Axis::tp] * count : 0};
}

TensorRef positions_of(Tape& t, Value x) {
  return own_part(t, t.program.inputs.positions, x, t[x].rows / t.program.micro_batch);
}

}  // namespace shardbench
