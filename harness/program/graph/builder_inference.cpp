// What inference adds to the blocks: the KV cache, the last position, and the greedy choice of the next token.
#include <fmt/format.h>

#include "harness/program/graph/context_blocks.hpp"
#include "harness/program/graph/graph_builder.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

constexpr auto tp_axis = static_cast<std::size_t>(Axis::tp);
constexpr auto cp_axis = static_cast<std::size_t>(Axis::cp);

/// The context rank with the last position, whose rows are its own last.
std::int64_t rank_of_the_end(ShardLayout layout, std::int64_t seq, std::int64_t ranks) {
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    DimRange const last = context_pieces(layout, seq, ranks, rank).back();
    if (last.begin + last.size == seq) return rank;
  }
  return ranks - 1;
}

}  // namespace

bool GraphBuilder::caches() const { return experiment_.phase != PhaseKind::train; }

TensorRef GraphBuilder::kv_cache(std::int64_t width) {
  // Rows are (position, sample), so the rows of new positions lie behind those of older ones.
  std::int64_t const rows = (program_.inference.context + program_.local_seq) * program_.micro_batch;
  TensorId const id = new_tensor(qualified("attention.cache"), TensorRole::kv_cache, program_.precision, rows, width);
  program_.tensors[static_cast<std::size_t>(id)].per_microbatch = true;
  return {id, 0, width};
}

void GraphBuilder::append_to_cache(TensorRef from, std::int64_t from_stride, std::int64_t cols, TensorRef cache,
                                   std::int64_t column) {
  from.stride = from_stride;
  cache.offset += column;
  std::int64_t const rows = program_.local_seq * program_.micro_batch;
  emit(make_op(OpKind::cache_append, BlockShape{rows, cols, 1}, "attention.cache", {from}, {cache}));
}

Value GraphBuilder::last_position(Value x) {
  Layout layout = state(x).layout;
  if (is_shard(layout[tp_axis], sequence_dim)) {
    layout[tp_axis] = Replicate{};
    x = redistribute(x, layout, "head.input");
  }
  std::int64_t const rows = program_.micro_batch, cols = state(x).cols;
  if (state(x).rows == rows && program_.degree[cp_axis] == 1) return x;
  TensorRef last = state(x).ref;
  last.offset += (state(x).rows - rows) * cols;
  if (std::int64_t const cp = program_.degree[cp_axis]; cp > 1) {
    // One context rank holds the end of the sequence; each goes on with its rows. They are copied first: the gather of
    // the tensor axis, which may be on its way, is then waited for by compute.
    TensorRef const own{new_tensor(qualified("head.own"), TensorRole::temporary, program_.precision, rows, cols), 0, 0};
    pack(last, rows, cols, cols, own, cols, "head.last");
    TensorRef const all{new_tensor(qualified("head.last"), TensorRole::temporary, program_.precision, cp * rows, cols),
                        0, 0};
    emit(make_collective(OpKind::all_gather, group_id("cp"), cp * rows * cols, program_.precision, "head.last", own,
                         all));
    last = {all.id, rank_of_the_end(context_layout(model_, experiment_.cut.cp_method), program_.seq, cp) * rows * cols,
            0};
    layout[cp_axis] = Replicate{};
  }
  return value_of(last, state(x).name, rows, cols, state(x).global_cols, layout);
}

void GraphBuilder::greedy(Value logits, std::int64_t first_column) {
  logits = whole(logits);
  std::int64_t const rows = state(logits).rows, columns = state(logits).cols, tp = program_.degree[tp_axis];
  // The logits outlive the step: they are what sharded and unsharded inference are compared by.
  program_.inference.logits = state(logits).ref.id;
  Tensor& kept = program_.tensors[static_cast<std::size_t>(program_.inference.logits)];
  kept.role = TensorRole::buffer;
  kept.per_microbatch = true;
  program_.inference.first_logit = first_column;
  bool const cut = is_shard(state(logits).layout[tp_axis], feature_dim);
  std::int64_t const parts = cut ? tp : 1;
  TensorRef const best{new_tensor("greedy.best", TensorRole::temporary, Dtype::f32, rows, 2), 0, 0};
  TensorRef all = best;
  GreedyShape const shape{rows, columns, first_column, parts};
  emit(make_op(OpKind::best_token, shape, "greedy.best", {state(logits).ref}, {best}));
  if (cut) {
    all = {new_tensor("greedy.all", TensorRole::temporary, Dtype::f32, parts * rows, 2), 0, 0};
    emit(make_collective(OpKind::all_gather, group_id("tp"), parts * rows * 2, Dtype::f32, "greedy.best", best, all));
  }
  emit(make_op(OpKind::pick_token, shape, "greedy.pick", {all}, {{program_.inference.next_ids, 0, 0}}));
}

void GraphBuilder::hand_on_token(bool sends) {
  // Backwards through the pipeline, as gradients go in training.
  auto const last = static_cast<std::int32_t>(program_.degree[static_cast<std::size_t>(Axis::pp)] - 1);
  Op op = make_collective(sends ? OpKind::send : OpKind::receive, group_id("pp"), program_.micro_batch, Dtype::i32,
                          "greedy.token", {}, {});
  op.inputs.clear();
  op.outputs.clear();
  if (sends)
    op.inputs.push_back({program_.inference.next_ids, 0, 0});
  else
    op.outputs.push_back({program_.inputs.ids, 0, 0});
  op.peer = sends ? 0 : last;
  op.stream = pipeline_stream(sends ? ActionKind::send : ActionKind::receive, Boundary::gradient, 0);
  op.tag = static_cast<std::int32_t>(op.stream) - static_cast<std::int32_t>(StreamId::pipeline) - (sends ? 0 : 4);
  emit(std::move(op));
}

}  // namespace shardbench
