// What inference adds to the blocks: the KV cache, the last position, and the greedy choice of the next token.
#include "harness/program/graph/inference.hpp"

#include <algorithm>

#include "harness/program/analysis/replay.hpp"
#include "harness/program/graph/context_blocks.hpp"
#include "harness/program/graph/redistribute.hpp"

namespace shardbench {

namespace {

/// The context rank with the last position, whose rows are its own last.
std::int64_t rank_of_the_end(ShardLayout layout, std::int64_t seq, std::int64_t ranks) {
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    DimRange const last = context_pieces(layout, seq, ranks, rank).back();
    if (last.begin + last.size == seq) return rank;
  }
  return ranks - 1;
}

}  // namespace

bool caches(Tape const& t) { return t.experiment.phase != PhaseKind::train; }

std::int64_t cached_positions(Tape const& t) {
  std::int64_t const all = t.program.inference.context + t.program.local_seq, window = t.model.sliding_window;
  if (!t.model.has_window(t.layer()) || t.program.degree[Axis::cp] > 1) return all;
  // A token sees itself and the window - 1 before it: those are what a prompt leaves behind.
  bool const decodes = t.experiment.phase == PhaseKind::decode;
  return std::min(all, decodes ? window : std::max<std::int64_t>(window - 1, 1));
}

TensorRef kv_cache(Tape& t, std::int64_t width) {
  // Rows are (position, sample), so the rows of new positions lie behind those of older ones.
  std::int64_t const rows = cached_positions(t) * t.program.micro_batch;
  TensorId const id =
      t.new_tensor(t.qualified("attention.cache"), TensorRole::kv_cache, t.program.precision, rows, width);
  t.program.tensors[id].per_microbatch = true;
  return {id, 0, width};
}

void append_to_cache(Tape& t, TensorRef from, std::int64_t cols, TensorRef cache) {
  std::int64_t const kept = std::min(t.program.local_seq, cached_positions(t)), batch = t.program.micro_batch;
  std::int64_t const rows = kept * batch, skipped = (t.program.local_seq - kept) * batch;
  from.offset += skipped * (from.stride > 0 ? from.stride : cols);
  t.emit(OpKind::cache_append, BlockShape{rows, cols}, "attention.cache", {from}, {cache});
}

Value last_position(Tape& t, Value x) {
  if (is_shard(t[x].layout[Axis::tp], sequence_dim)) x = redistribute_along(t, x, Axis::tp, Replicate{}, "head.input");
  std::int64_t const rows = t.program.micro_batch, cols = t[x].cols, cp = t.program.degree[Axis::cp];
  if (t[x].rows == rows && cp == 1) return x;
  Layout layout = t[x].layout;
  TensorRef last = t[x].ref;
  last.offset += (t[x].rows - rows) * cols;
  if (cp > 1) {
    // One context rank holds the end of the sequence; each goes on with its rows. They are copied first: the gather of
    // the tensor axis, which may be on its way, is then waited for by compute.
    TensorRef const own = t.temporary("head.own", rows, cols);
    pack(t, last, own, rows, cols, "head.last");
    TensorRef const all = t.temporary("head.last", cp * rows, cols);
    t.emit_collective(OpKind::all_gather, id_of(GroupKind::cp), cp * rows * cols, "head.last", own, all);
    ShardLayout const cut = context_layout(t.model, t.experiment.cut.cp_method);
    last = behind(all, rank_of_the_end(cut, t.program.seq, cp) * rows * cols);
    layout[Axis::cp] = Replicate{};
  }
  return t.value_of(last, t[x].name, rows, cols, layout, t[x].global_cols);
}

void greedy(Tape& t, Value logits, std::int64_t first_column) {
  logits = whole(t, logits);
  ValueState const& in = t[logits];
  // The logits outlive the step: they are what sharded and unsharded inference are compared by.
  t.program.inference.logits = in.ref.id;
  t.program.tensors[in.ref.id].role = TensorRole::buffer;
  t.program.tensors[in.ref.id].per_microbatch = true;
  t.program.inference.first_logit = first_column;
  bool const cut = is_shard(in.layout[Axis::tp], feature_dim);
  std::int64_t const parts = cut ? t.program.degree[Axis::tp] : 1;
  TensorRef const best = t.temporary("greedy.best", Dtype::f32, in.rows, 2);
  TensorRef all = best;
  GreedyShape const shape{in.rows, in.cols, first_column, parts};
  t.emit(OpKind::best_token, shape, "greedy.best", {in.ref}, {best});
  if (cut) {
    all = t.temporary("greedy.all", Dtype::f32, parts * in.rows, 2);
    t.emit(t.make_collective(OpKind::all_gather, id_of(GroupKind::tp), parts * in.rows * 2, Dtype::f32, "greedy.best",
                             best, all));
  }
  t.emit(OpKind::pick_token, shape, "greedy.pick", {all}, {TensorRef{t.program.inference.next_ids}});
}

void hand_on_token(Tape& t, bool sends) {
  // Backwards through the pipeline, as gradients go in training.
  auto const last = static_cast<std::int32_t>(t.program.degree[Axis::pp] - 1);
  Op op = t.make_collective(sends ? OpKind::send : OpKind::receive, id_of(GroupKind::pp), t.program.micro_batch,
                            Dtype::i32, "greedy.token", {t.program.inference.next_ids}, {t.program.inputs.ids});
  (sends ? op.outputs : op.inputs).clear();
  op.peer = sends ? 0 : last;
  op.stream = pipeline_stream(sends ? ActionKind::send : ActionKind::receive, Boundary::gradient, 0);
  op.tag = message_kind(op.stream);
  t.emit(std::move(op));
}

}  // namespace shardbench
