// Partially synchronised tensor parallelism: at the sync point only the first channels of a partial sum are reduced,
// the others stay each rank's own. Its unsharded reference holds the ranks' residual streams side by side: a row of the
// tensor [tokens, streams * cols] is a token's streams one after the other, so that norms and attention see streams as
// samples, and a cut weight is the whole weight with every other stream's part of its operand set to zero.
#include <fmt/format.h>

#include <cmath>

#include "harness/program/graph/graph_builder.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

void GraphBuilder::check_private_cut(LinearSpec const& spec, Layout const& input) const {
  constexpr auto tp = static_cast<std::size_t>(Axis::tp);
  Placement const placement = strategy_.weight(spec.role);
  bool const inside = is_shard(input[tp], feature_dim);
  // Streams of one rank keep no layout: there the check was made when the ranks' program was built.
  bool const fits = streams_ > 1 ? is_shard(placement) : is_shard(placement, inside ? 1 : 0);
  if (!fits)
    throw IllegalConfig(fmt::format("{}: {} does not fit activations that are {} between blocks (allowed: {})",
                                    spec.role, to_string(placement), to_string(strategy_.block),
                                    inside ? "shard(1)" : "shard(0)"));
}

TensorRef GraphBuilder::temporary(std::string const& name, std::int64_t rows, std::int64_t cols) {
  return {new_tensor(qualified(name), TensorRole::temporary, program_.precision, rows, cols), 0, 0};
}

TensorRef GraphBuilder::sync_part(TensorRef x, std::int64_t rows, std::int64_t cols, std::int64_t synced,
                                  std::string const& name) {
  auto const scale =
      static_cast<float>(std::sqrt(static_cast<double>(program_.degree[static_cast<std::size_t>(Axis::tp)])));
  std::int32_t const group = group_id("tp");
  TensorRef const y = temporary(name, rows, cols), first = temporary(name + ".synced", rows, synced);
  if (synced > 0) {
    pack(x, rows, synced, cols, first, synced, name);
    emit(make_collective(OpKind::all_reduce, group, rows * synced, program_.precision, name, first, first));
  }
  // While the first channels are on their way.
  if (synced < cols)
    pack({x.id, x.offset + synced, 0}, rows, cols - synced, cols, {y.id, synced, 0}, cols, name + ".private", scale);
  if (synced > 0) pack(first, rows, synced, synced, y, cols, name);
  return y;
}

TensorRef GraphBuilder::sum_of_streams(TensorRef x, std::int64_t rows, std::int64_t cols, std::string const& name) {
  TensorRef sum = temporary(name, rows, cols);
  pack(x, rows, cols, streams_ * cols, sum, cols, name);
  for (std::int64_t r = 1; r < streams_; ++r) {
    TensorRef const term = temporary(name, rows, cols), next = temporary(name, rows, cols);
    pack({x.id, x.offset + r * cols, 0}, rows, cols, streams_ * cols, term, cols, name);
    emit(make_op(OpKind::add, BlockShape{rows, cols, 1}, name, {sum, term}, {next}));
    sum = next;
  }
  return sum;
}

TensorRef GraphBuilder::copy_to_streams(TensorRef x, std::int64_t rows, std::int64_t cols, std::string const& name) {
  TensorRef const y = temporary(name, rows * streams_, cols);
  for (std::int64_t r = 0; r < streams_; ++r) pack(x, rows, cols, cols, {y.id, r * cols, 0}, streams_ * cols, name);
  return y;
}

TensorRef GraphBuilder::keep_own_blocks(TensorRef x, std::int64_t rows, std::int64_t cols, std::string const& name) {
  if (cols % streams_ != 0)
    throw IllegalConfig(fmt::format("{}: width {} does not divide by tp={}", name, cols, streams_));
  std::int64_t const part = cols / streams_;
  TensorRef const y = temporary(name, rows * streams_, cols);
  pack(x, rows * streams_, cols, cols, y, cols, name, 0);
  for (std::int64_t r = 0; r < streams_; ++r) {
    std::int64_t const at = r * cols + r * part;
    pack({x.id, x.offset + at, 0}, rows, part, streams_ * cols, {y.id, at, 0}, streams_ * cols, name);
  }
  return y;
}

TensorRef GraphBuilder::sync_over_streams(TensorRef x, std::int64_t rows, std::int64_t cols, std::string const& name) {
  std::int64_t const synced = std::get<Private>(strategy_.block).synced, stride = streams_ * cols;
  auto const scale = static_cast<float>(std::sqrt(static_cast<double>(streams_)));
  TensorRef const y = temporary(name, rows * streams_, cols);
  if (synced < cols)
    pack({x.id, x.offset + synced, 0}, rows * streams_, cols - synced, cols, {y.id, synced, 0}, cols, name, scale);
  TensorRef sum;
  for (std::int64_t r = 0; r < streams_ && synced > 0; ++r) {
    TensorRef const term = temporary(name, rows, synced);
    pack({x.id, x.offset + r * cols, 0}, rows, synced, stride, term, synced, name);
    TensorRef const next = r == 0 ? term : temporary(name, rows, synced);
    if (r > 0) emit(make_op(OpKind::add, BlockShape{rows, synced, 1}, name, {sum, term}, {next}));
    sum = next;
  }
  for (std::int64_t r = 0; r < streams_ && synced > 0; ++r)
    pack(sum, rows, synced, synced, {y.id, r * cols, 0}, stride, name);
  return y;
}

// --- the same as values, with their backward ---

Value GraphBuilder::expand_streams(Value x) {
  std::int64_t const rows = state(x).rows, cols = state(x).cols;
  TensorRef const y_ref = copy_to_streams(state(x).ref, rows, cols, "streams");
  Value const y = value_of(y_ref, "streams", rows * streams_, cols, cols, state(x).layout);
  on_backward([=, this] { accumulate(x, sum_of_streams(take_gradient(y), rows, cols, "streams"), state(x).layout); });
  return y;
}

Value GraphBuilder::sum_streams(Value x) {
  std::int64_t const rows = state(x).rows / streams_, cols = state(x).cols;
  TensorRef const y_ref = sum_of_streams(state(x).ref, rows, cols, "streams.sum");
  Value const y = value_of(y_ref, "streams.sum", rows, cols, cols, state(x).layout);
  on_backward(
      [=, this] { accumulate(x, copy_to_streams(take_gradient(y), rows, cols, "streams.sum"), state(x).layout); });
  return y;
}

Value GraphBuilder::own_blocks(Value x, std::string const& name) {
  std::int64_t const rows = state(x).rows / streams_, cols = state(x).cols;
  TensorRef const y_ref = keep_own_blocks(state(x).ref, rows, cols, name);
  Value const y = value_of(y_ref, name, rows * streams_, cols, state(x).global_cols, state(x).layout);
  on_backward([=, this] { accumulate(x, keep_own_blocks(take_gradient(y), rows, cols, name), state(x).layout); });
  return y;
}

Value GraphBuilder::select_blocks(Value x, std::string const& name) {
  std::int64_t const rows = state(x).rows / streams_, cols = state(x).cols, part = cols / streams_;
  TensorRef const y_ref = temporary(name, rows, cols);
  for (std::int64_t r = 0; r < streams_; ++r)
    pack({state(x).ref.id, r * cols + r * part, 0}, rows, part, streams_ * cols, {y_ref.id, r * part, 0}, cols, name);
  Value const y = value_of(y_ref, name, rows, cols, state(x).global_cols, state(x).layout);
  on_backward([=, this] {
    TensorRef const dy = take_gradient(y);
    TensorRef const all = copy_to_streams(dy, rows, cols, name);
    accumulate(x, keep_own_blocks(all, rows, cols, name), state(x).layout);
  });
  return y;
}

Value GraphBuilder::sync_streams(Value x, std::string const& name) {
  std::int64_t const rows = state(x).rows / streams_, cols = state(x).cols;
  TensorRef const y_ref = sync_over_streams(state(x).ref, rows, cols, name);
  Value const y = value_of(y_ref, name, rows * streams_, cols, cols, state(x).layout);
  state(y).late_bias = state(x).late_bias;
  on_backward([=, this] {
    // Summing and scaling are their own dual.
    accumulate(x, sync_over_streams(take_gradient(y), rows, cols, name), state(x).layout);
  });
  return y;
}

}  // namespace shardbench
