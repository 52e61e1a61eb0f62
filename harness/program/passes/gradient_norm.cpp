#include "harness/program/passes/gradient_norm.hpp"

#include <algorithm>

namespace shardbench {

namespace {

/// Whether this rank is the one of its data-parallel copies that speaks for the bucket (or for its shard of it).
bool speaks_among_copies(StepProgram const& p, Bucket const& bucket) {
  bool const expert = p.parameters[bucket.parameters.front()].expert;
  bool const sharded = bucket.shard_elements < bucket.elements;
  // Shards are spread over data and context ranks; only copies of a whole shard set hold the same.
  GroupKind const copies = expert ? (sharded ? GroupKind::expert_replica : GroupKind::edp)
                                  : (sharded ? GroupKind::replica : GroupKind::dp_cp);
  return p.groups[copies].members.front() == p.rank;
}

}  // namespace

std::vector<std::pair<std::int64_t, std::int64_t>> counted_ranges(StepProgram const& p, Bucket const& bucket) {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  if (!speaks_among_copies(p, bucket)) return ranges;
  std::int64_t const tp = p.coordinate[Axis::tp], shard_end = bucket.shard_begin + bucket.shard_elements;
  for (ParameterId const index : bucket.parameters) {
    Parameter const& parameter = p.parameters[index];
    if (parameter.copy) continue;
    std::int64_t at = p.tensors[parameter.gradient].storage_offset;
    for (ParameterSection const& s : parameter.sections) {
      bool const speaks = parameter.expert || tp % s.tp_copies == 0;
      std::int64_t const rows = std::clamp<std::int64_t>(s.global_rows - s.row_begin, 0, s.rows);
      std::int64_t const begin = std::max(at, bucket.shard_begin),
                         end = std::min(at + rows * parameter.cols, shard_end);
      at += s.rows * parameter.cols;
      if (speaks && begin < end) ranges.emplace_back(begin, end);
    }
  }
  std::ranges::sort(ranges);
  // Neighbours become one.
  std::vector<std::pair<std::int64_t, std::int64_t>> joined;
  for (auto const& range : ranges) {
    if (!joined.empty() && joined.back().second == range.first)
      joined.back().second = range.second;
    else
      joined.push_back(range);
  }
  return joined;
}

std::vector<Op> clip_ops(Tape& t) {
  if (t.experiment.clip_grad <= 0) return {};
  StepProgram& p = t.program;
  t.set_phase("optimizer");
  p.clip.squares = t.new_tensor("gradient_squares", TensorRole::buffer, Dtype::f32, 1, 1);
  p.clip.factor = t.new_tensor("clip_factor", TensorRole::buffer, Dtype::f32, 1, 1);
  TensorRef const squares{p.clip.squares};
  std::vector<Op> ops;
  auto const add = [&](TensorRef from, std::int64_t count) {
    Op op = t.make_op(OpKind::square_sum, BlockShape{1, count, 1}, "clip.norm", {from}, {squares});
    op.always_accumulate = !ops.empty();
    ops.push_back(std::move(op));
  };
  for (Bucket const& bucket : p.buckets)
    for (auto const& [begin, end] : counted_ranges(p, bucket)) {
      bool const own_shard = bucket.gradient_shard != no_tensor;
      add(own_shard ? TensorRef{bucket.gradient_shard, begin - bucket.shard_begin, 0}
                    : TensorRef{bucket.gradients, begin, 0},
          end - begin);
    }
  // A rank that speaks for nothing has a zero to add.
  if (ops.empty()) add({p.clip.squares}, 0);
  for (GroupKind const kind : {GroupKind::tp, GroupKind::dp_cp, GroupKind::pp})
    if (p.groups[kind].members.size() > 1)
      ops.push_back(t.make_collective(OpKind::all_reduce, id_of(kind), 1, Dtype::f32, "clip.norm", squares, squares));
  ops.push_back(t.make_op(OpKind::clip_factor, ClipShape{static_cast<float>(t.experiment.clip_grad)}, "clip.factor",
                          {squares}, {{p.clip.factor}}));
  return ops;
}

}  // namespace shardbench
