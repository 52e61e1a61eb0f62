#include "harness/program/graph/streams.hpp"

#include <fmt/format.h>

#include <cmath>

#include "harness/program/graph/redistribute.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

std::int64_t residual_streams(Tape const& t) { return t.experiment.cut.streams; }

bool has_private_blocks(Tape const& t) { return residual_streams(t) > 1 || is_private(t.block_layout()[Axis::tp]); }

void check_private_cut(Tape const& t, LinearSpec const& spec, Layout const& input) {
  Placement const placement = t.strategy.weight(spec.role);
  bool const inside = is_shard(input[Axis::tp], feature_dim);
  // Streams of one rank keep no layout: there the check was made when the ranks' program was built.
  bool const fits = residual_streams(t) > 1 ? is_shard(placement) : is_shard(placement, inside ? 1 : 0);
  if (!fits)
    throw IllegalConfig(fmt::format("{}: {} does not fit activations that are {} between blocks (allowed: {})",
                                    spec.role, to_string(placement), to_string(t.strategy.block),
                                    inside ? "shard(1)" : "shard(0)"));
}

namespace {

float deviation_of_sum(std::int64_t terms) { return static_cast<float>(std::sqrt(static_cast<double>(terms))); }

}  // namespace

TensorRef sync_channels(Tape& t, Matrix const& x, std::int64_t synced, std::string const& name) {
  std::int64_t const rows = x.rows, cols = x.cols;
  TensorRef const y = t.temporary(name, rows, cols), first = t.temporary(name + ".synced", rows, synced);
  if (synced > 0) {
    pack(t, columns(x.ref, 0, cols), first, rows, synced, name);
    t.emit_collective(OpKind::all_reduce, id_of(GroupKind::tp), rows * synced, name, first, first);
  }
  // While the first channels are on their way.
  if (synced < cols)
    pack(t, columns(x.ref, synced, cols), columns(y, synced, cols), rows, cols - synced, name + ".private",
         deviation_of_sum(t.program.degree[Axis::tp]));
  if (synced > 0) pack(t, first, columns(y, 0, cols), rows, synced, name);
  return y;
}

namespace {

// Of operands whose row is a token: [rows, streams * cols]; `rows` and `cols` are those of one stream.

TensorRef sum_of_streams(Tape& t, TensorRef x, std::int64_t rows, std::int64_t cols, std::string const& name) {
  std::int64_t const streams = residual_streams(t);
  TensorRef sum = t.temporary(name, rows, cols);
  pack(t, columns(x, 0, streams * cols), sum, rows, cols, name);
  for (std::int64_t r = 1; r < streams; ++r) {
    TensorRef const term = t.temporary(name, rows, cols), next = t.temporary(name, rows, cols);
    pack(t, columns(x, r * cols, streams * cols), term, rows, cols, name);
    t.emit(OpKind::add, BlockShape{rows, cols}, name, {sum, term}, {next});
    sum = next;
  }
  return sum;
}

TensorRef copy_to_streams(Tape& t, TensorRef x, std::int64_t rows, std::int64_t cols, std::string const& name) {
  std::int64_t const streams = residual_streams(t);
  TensorRef const y = t.temporary(name, rows * streams, cols);
  for (std::int64_t r = 0; r < streams; ++r) pack(t, x, columns(y, r * cols, streams * cols), rows, cols, name);
  return y;
}

TensorRef keep_own_blocks(Tape& t, TensorRef x, std::int64_t rows, std::int64_t cols, std::string const& name) {
  std::int64_t const streams = residual_streams(t), part = cols / streams;
  if (cols % streams != 0)
    throw IllegalConfig(fmt::format("{}: width {} does not divide by tp={}", name, cols, streams));
  TensorRef const y = t.temporary(name, rows * streams, cols);
  pack(t, x, y, rows * streams, cols, name, 0);
  for (std::int64_t r = 0; r < streams; ++r) {
    std::int64_t const at = r * cols + r * part;
    pack(t, columns(x, at, streams * cols), columns(y, at, streams * cols), rows, part, name);
  }
  return y;
}

TensorRef sync_over_streams(Tape& t, TensorRef x, std::int64_t rows, std::int64_t cols, std::string const& name) {
  std::int64_t const streams = residual_streams(t), synced = std::get<Private>(t.strategy.block).synced;
  TensorRef const y = t.temporary(name, rows * streams, cols);
  if (synced < cols)
    pack(t, columns(x, synced, cols), columns(y, synced, cols), rows * streams, cols - synced, name,
         deviation_of_sum(streams));
  TensorRef sum;
  for (std::int64_t r = 0; r < streams && synced > 0; ++r) {
    TensorRef const term = t.temporary(name, rows, synced);
    pack(t, columns(x, r * cols, streams * cols), term, rows, synced, name);
    TensorRef const next = r == 0 ? term : t.temporary(name, rows, synced);
    if (r > 0) t.emit(OpKind::add, BlockShape{rows, synced}, name, {sum, term}, {next});
    sum = next;
  }
  for (std::int64_t r = 0; r < streams && synced > 0; ++r)
    pack(t, sum, columns(y, r * cols, streams * cols), rows, synced, name);
  return y;
}

using Along = TensorRef (*)(Tape&, TensorRef, std::int64_t, std::int64_t, std::string const&);

/// y = forward(x) of `rows` tokens; its gradient goes through `backward`.
Value over_streams(Tape& t, Value x, std::int64_t rows, std::int64_t y_rows, std::string const& name, Along forward,
                   Along backward) {
  ValueState const& in = t[x];
  std::int64_t const cols = in.cols;
  Value const y = t.value_of(forward(t, in.ref, rows, cols, name), name, y_rows, cols, in.layout, in.global_cols);
  t.on_backward([=, &t] { t.accumulate(x, backward(t, t.take_gradient(y), rows, cols, name)); });
  return y;
}

}  // namespace

Value expand_streams(Tape& t, Value x) {
  std::int64_t const rows = t[x].rows;
  return over_streams(t, x, rows, rows * residual_streams(t), "streams", copy_to_streams, sum_of_streams);
}

Value sum_streams(Tape& t, Value x) {
  std::int64_t const rows = t[x].rows / residual_streams(t);
  return over_streams(t, x, rows, rows, "streams.sum", sum_of_streams, copy_to_streams);
}

Value own_blocks(Tape& t, Value x, std::string const& name) {
  std::int64_t const rows = t[x].rows;
  return over_streams(t, x, rows / residual_streams(t), rows, name, keep_own_blocks, keep_own_blocks);
}

Value select_blocks(Tape& t, Value x, std::string const& name) {
  std::int64_t const streams = residual_streams(t);
  std::int64_t const rows = t[x].rows / streams, cols = t[x].cols, part = cols / streams;
  Value const y = t.value(name, rows, cols, t[x].layout, t[x].global_cols);
  for (std::int64_t r = 0; r < streams; ++r)
    pack(t, {t[x].ref.id, r * cols + r * part, streams * cols}, columns(t[y].ref, r * part, cols), rows, part, name);
  t.on_backward([=, &t] {
    TensorRef const all = copy_to_streams(t, t.take_gradient(y), rows, cols, name);
    t.accumulate(x, keep_own_blocks(t, all, rows, cols, name));
  });
  return y;
}

Value sync_streams(Tape& t, Value x, std::string const& name) {
  std::int64_t const rows = t[x].rows;
  // Summing and scaling are their own dual.
  Value const y = over_streams(t, x, rows / residual_streams(t), rows, name, sync_over_streams, sync_over_streams);
  t[y].late_bias = t[x].late_bias;
  return y;
}

}  // namespace shardbench
