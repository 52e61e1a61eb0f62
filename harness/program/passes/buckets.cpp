#include "harness/program/passes/buckets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

namespace shardbench {

namespace {

std::int64_t padded_elements(Parameter const& parameter) { return (parameter.elements() + 15) / 16 * 16; }

}  // namespace

std::int64_t padded_elements(StepProgram const& p, Bucket const& bucket) {
  std::int64_t elements = 0;
  for (ParameterId const id : bucket.parameters) elements += padded_elements(p.parameters[id]);
  return elements;
}

void place_parameters(StepProgram& p, Bucket const& bucket, BucketId index) {
  std::int64_t offset = 0;
  for (ParameterId const id : bucket.parameters) {
    Parameter& parameter = p.parameters[id];
    parameter.bucket = index;
    for (auto const& [part, whole] :
         {std::pair(parameter.weight, bucket.weights), {parameter.gradient, bucket.gradients}})
      if (part.valid()) p.tensors[part].storage = whole, p.tensors[part].storage_offset = offset;
    offset += padded_elements(parameter);
  }
}

namespace {

std::int64_t group_size(Tape const& t, GroupId group) { return std::ssize(t.program.groups[group].members); }

/// A weight that another chunk holds a copy of: in a bucket of its own, so that its shards are those of the copies.
bool meets_copy(StepProgram const& p, Parameter const& parameter) {
  Chunk const& chunk = p.chunks[parameter.chunk];
  return parameter.tied && !(chunk.has_embedding && chunk.has_head);
}

/// Which groups a gradient is summed over, and which of them its states are sharded over.
struct Reduction {
  std::vector<GroupId> groups;
  GroupId shard_group;
  bool operator<(Reduction const& other) const {
    return std::tie(groups, shard_group) < std::tie(other.groups, other.shard_group);
  }
};

/// Parameters with equal answers may share a bucket.
Reduction reduction_of(Tape const& t, Parameter const& parameter, EnumArray<Axis, bool> const& partial) {
  Reduction r;
  auto const use = [&](GroupKind kind) {
    bool const meets = group_size(t, id_of(kind)) > 1;
    if (meets) r.groups.push_back(id_of(kind));
    return meets;
  };
  // One rank may hold a whole shard set: there is nothing to cut then, only copies to sum.
  auto const use_shards = [&](GroupKind shard, GroupKind replica) {
    if (use(shard)) r.shard_group = id_of(shard);
    use(replica);
  };
  bool const sharded = t.experiment.cut.zero_stage > 0;
  if (!parameter.expert && partial[Axis::tp]) use(GroupKind::tp);
  if (parameter.expert && sharded)
    use_shards(GroupKind::expert_shard, GroupKind::expert_replica);
  else if (parameter.expert)
    use(GroupKind::edp);
  else if (sharded && (partial[Axis::dp] || partial[Axis::cp]))
    use_shards(GroupKind::shard, GroupKind::replica);
  else if (partial[Axis::cp])
    use(GroupKind::dp_cp);
  else if (partial[Axis::dp])
    use(GroupKind::dp);
  return r;
}

/// Position of the last op that writes one of the bucket's gradients.
std::size_t last_writer(StepProgram const& p, Bucket const& bucket, std::vector<Op> const& ops) {
  std::size_t last = 0;
  for (std::size_t i = 0; i < ops.size(); ++i)
    for (TensorRef const& out : ops[i].outputs)
      for (ParameterId const id : bucket.parameters)
        if (out.id == p.parameters[id].gradient) last = i;
  return last;
}

void lay_out(Tape& t, Bucket& bucket, BucketId index) {
  StepProgram& p = t.program;
  Experiment const& e = t.experiment;
  bool const sharded = bucket.shard_group.valid();
  // Shards are whole vectors, so every rank's part starts aligned.
  std::int64_t const shards = sharded ? group_size(t, bucket.shard_group) : 1;
  bucket.elements = (padded_elements(p, bucket) + 16 * shards - 1) / (16 * shards) * (16 * shards);
  bucket.shard_elements = bucket.elements / shards;
  if (sharded) {
    auto const& members = p.groups[bucket.shard_group].members;
    bucket.shard_begin = bucket.shard_elements * (std::ranges::find(members, p.rank) - members.begin());
  }
  auto const tensor = [&](char const* what, TensorRole role, Dtype dtype, std::int64_t elements) {
    return t.new_tensor(fmt::format("bucket{}.{}", std::int32_t{index}, what), role, dtype, elements, 1);
  };
  auto const shard = [&](char const* what, TensorRole role, Dtype dtype) {
    return tensor(what, role, dtype, bucket.shard_elements);
  };
  bool const gathered = e.cut.zero_stage == 3 && sharded;
  // From ZeRO 2 on the whole gradient is a microbatch's, unless it is kept; ZeRO 3 kept ones are cut at the end.
  bool const kept = e.cut.zero_keep == ZeroKeep::all, cut = sharded && (gathered || (e.cut.zero_stage == 2 && !kept));
  using enum TensorRole;
  bucket.weights = tensor("weights", gathered ? activation : parameter, p.precision, bucket.elements);
  bucket.gradients = tensor("gradients", cut && !kept ? activation : gradient, e.gradient_dtype, bucket.elements);
  place_parameters(p, bucket, index);
  if (p.precision != Dtype::f32) bucket.master = shard("master", optimizer, Dtype::f32);
  bucket.exp_avg = shard("exp_avg", optimizer, Dtype::f32);
  bucket.exp_avg_sq = shard("exp_avg_sq", optimizer, Dtype::f32);
  if (gathered) bucket.weight_shard = shard("weight_shard", parameter, p.precision);
  if (cut) {
    bucket.gradient_shard = shard("gradient_shard", gradient, e.gradient_dtype);
    bucket.reduced = shard("reduced", temporary, e.gradient_dtype);
  }
}

/// A microbatch's gradient is cut and added to the shard; copies of the shard agree once a step.
std::vector<Op> shard_reduction_ops(Tape& t, Bucket const& bucket) {
  std::vector<Op> ops;
  TensorRef const whole{bucket.gradients}, sum{bucket.gradient_shard}, part{bucket.reduced};
  Dtype const dtype = t.experiment.gradient_dtype;
  bool cut = false;
  for (GroupId const over : bucket.reduce_groups) {
    if (over == bucket.shard_group) {
      ops.push_back(t.make_collective(OpKind::reduce_scatter, over, bucket.elements, dtype, "gradients", whole, part));
      ops.push_back(
          t.make_op(OpKind::copy_block, BlockShape{1, bucket.shard_elements, 1}, "gradients.add", {part}, {sum}));
      ops.back().accumulate = true;
      ops.back().after.push_back(whole);  // whose place is taken until then: the next pass does not wait for this one's
      cut = true;
      continue;
    }
    TensorRef const what = cut ? sum : whole;
    ops.push_back(t.make_collective(OpKind::all_reduce, over, cut ? bucket.shard_elements : bucket.elements, dtype,
                                    "gradients", what, what));
    if (cut) ops.back().when = When::last;
  }
  return ops;
}

/// Sums of a bucket's gradients: whole until they are cut into shards, the own shard from there on.
std::vector<Op> reduction_ops(Tape& t, Bucket const& bucket) {
  std::vector<Op> ops;
  TensorRef const whole{bucket.gradients}, shard{bucket.gradients, bucket.shard_begin, 0};
  bool cut = false;
  for (GroupId const group : bucket.reduce_groups) {
    bool const cuts = group == bucket.shard_group;
    TensorRef const from = cut ? shard : whole, to = cut || cuts ? shard : whole;
    ops.push_back(t.make_collective(cuts ? OpKind::reduce_scatter : OpKind::all_reduce, group,
                                    cut ? bucket.shard_elements : bucket.elements, t.experiment.gradient_dtype,
                                    "gradients", from, to));
    cut = cut || cuts;
    ops.back().when = When::last;
    ops.back().part = BackwardPart::weight;
  }
  return ops;
}

/// Appends a shard's reduction; what takes what the collective made, and what follows, can come later.
void append_reduction(std::vector<Op> ops, std::vector<Op>& out, std::vector<Op>& additions) {
  auto const addition = std::ranges::find_if(ops, [](Op const& op) { return !is_communication(op.kind); });
  std::move(ops.begin(), addition, std::back_inserter(out));
  std::move(addition, ops.end(), std::back_inserter(additions));
}

/// Puts each bucket's collectives behind the last op that writes to it. What adds its cut gradient to the shard comes
/// with the next bucket, so that the collective runs beside the backward pass between them; returns the last one's.
std::vector<Op> insert_reductions(Tape& t, BucketId first_bucket, std::vector<Op>& backward) {
  StepProgram& p = t.program;
  std::vector<std::pair<std::size_t, BucketId>> places;
  for (std::int32_t i = first_bucket; i < std::ssize(p.buckets); ++i)
    if (p.buckets[i].weight_shard == no_tensor) places.emplace_back(last_writer(p, p.buckets[i], backward), i);
  std::ranges::sort(places);
  std::vector<Op> out, late;
  auto place = places.begin();
  for (std::size_t at = 0; at < backward.size(); ++at) {
    out.push_back(std::move(backward[at]));
    for (; place != places.end() && place->first == at; ++place) {
      std::ranges::move(late, std::back_inserter(out));
      late.clear();
      Bucket const& bucket = p.buckets[place->second];
      bool const cut = bucket.gradient_shard != no_tensor;
      std::vector<Op> ops = cut ? shard_reduction_ops(t, bucket) : reduction_ops(t, bucket);
      for (Op& op : ops) op.part = BackwardPart::weight;
      append_reduction(std::move(ops), out, late);
    }
  }
  backward = std::move(out);
  return late;
}

/// Gradients that come with the input part of a backward pass.
std::set<TensorId> early_gradients(std::vector<Op> const& backward) {
  std::set<TensorId> early;
  for (Op const& op : backward)
    if (op.part == BackwardPart::input)
      for (TensorRef const& out : op.outputs) early.insert(out.id);
  return early;
}

/// Where gradients are cut after every backward, those of a microbatch overwrite, and the shard adds them up. What
/// ranks agree on before that, they agree on every time.
void reduce_every_time(StepProgram const& p, std::vector<Op>& backward) {
  for (Op& op : backward)
    for (TensorRef const& out : op.outputs) {
      if (!out.valid()) continue;
      TensorId const root = p.storage_of(out.id);
      bool const reduced = std::ranges::any_of(
          p.buckets, [&](Bucket const& b) { return b.gradient_shard != no_tensor && b.gradients == root; });
      if (!reduced || p.tensors[root].role == TensorRole::gradient) continue;
      op.accumulate = false;
      if (op.when == When::last) op.when = When::every;
    }
}

}  // namespace

bool weights_are_sharded(Experiment const& e) {
  Cut const& c = e.cut;
  std::int64_t const ranks = (c.shard_ranks > 0 ? c.shard_ranks : c.dp) * c.cp;
  return c.zero_stage == 3 && (ranks > 1 || (e.model.moe && ranks * c.tp > c.etp * c.ep));
}

void add_buckets(Tape& t, std::int32_t chunk, ParameterId first_parameter, bool splits_backward,
                 std::vector<Op>& backward) {
  StepProgram& p = t.program;
  Experiment const& e = t.experiment;
  BucketId const first_bucket(p.buckets.size());
  // Backward reaches the last parameter first.
  // Whole gradients of a microbatch are kept from part to part of its backward pass, so those of either part lie apart.
  std::set<TensorId> early;
  if (splits_backward && e.cut.zero_stage > 1) early = early_gradients(backward);
  std::map<std::tuple<Reduction, bool, bool, bool>, BucketId> open;
  for (auto i = static_cast<std::int32_t>(p.parameters.size()); i-- > first_parameter;) {
    Parameter const& parameter = p.parameters[i];
    auto const over = reduction_of(t, parameter, t.gradient_partial[i]);
    auto const key = std::tuple{over, parameter.expert, meets_copy(p, parameter), early.contains(parameter.gradient)};
    auto it = open.find(key);
    // `elements` holds the running sum until the bucket is laid out.
    double const elements = it == open.end() ? 0 : static_cast<double>(p.buckets[it->second].elements);
    bool const full = elements * static_cast<double>(bytes_of(e.gradient_dtype)) >= e.bucket_mb * 1e6;
    if (it == open.end() || (!over.groups.empty() && full)) {
      Bucket fresh{.parameters = {}, .reduce_groups = over.groups, .shard_group = over.shard_group, .chunk = chunk};
      it = open.insert_or_assign(key, p.buckets.add(std::move(fresh))).first;
    }
    Bucket& bucket = p.buckets[it->second];
    bucket.parameters.push_back(i);
    bucket.elements += parameter.elements();
  }
  for (std::int32_t i = first_bucket; i < std::ssize(p.buckets); ++i) lay_out(t, p.buckets[i], i);
  std::vector<Op> last = insert_reductions(t, first_bucket, backward);
  reduce_every_time(p, backward);
  if (!last.empty()) p.segments.push_back({ActionKind::add, chunk, std::move(last)});
}

void add_shard_segments(Tape& t, std::int32_t chunk) {
  StepProgram& p = t.program;
  t.begin_chunk(chunk);
  Segment gather{ActionKind::gather, chunk, {}}, reduce{ActionKind::reduce, chunk, {}}, add{ActionKind::add, chunk, {}};
  for (Bucket const& bucket : p.buckets) {
    if (bucket.chunk != chunk || bucket.weight_shard == no_tensor) continue;
    t.set_phase("gather");
    gather.ops.push_back(t.make_collective(OpKind::all_gather, bucket.shard_group, bucket.elements, p.precision,
                                           "weights", {bucket.weight_shard}, {bucket.weights}));
    t.set_phase("reduce");
    append_reduction(shard_reduction_ops(t, bucket), reduce.ops, add.ops);
  }
  p.segments.push_back(std::move(gather));
  p.segments.push_back(std::move(reduce));
  if (!add.ops.empty()) p.segments.push_back(std::move(add));
}

namespace {

/// What this rank holds of a bucket's reduced gradient.
TensorRef reduced_gradient(Bucket const& bucket) {
  return bucket.gradient_shard != no_tensor ? TensorRef{bucket.gradient_shard}
                                            : TensorRef{bucket.gradients, bucket.shard_begin, 0};
}

void reduce_mirrors(Tape& t, std::vector<Op>& ops) {
  GroupId const mirror = id_of(GroupKind::pipeline_mirror);
  if (group_size(t, mirror) < 2) return;
  // Both ranks hold the same two pieces in opposite chunks: the order of the pieces is the one they share.
  std::vector<Bucket> buckets = t.program.buckets;
  std::ranges::stable_sort(buckets, {}, [&](Bucket const& bucket) { return t.program.chunks[bucket.chunk].piece; });
  for (Bucket const& bucket : buckets) {
    TensorRef const sum = reduced_gradient(bucket);
    ops.push_back(t.make_collective(OpKind::all_reduce, mirror, bucket.shard_elements, t.experiment.gradient_dtype,
                                    "mirror_gradients", sum, sum));
  }
}

/// Copies of a tied weight in two chunks of this rank meet here, those of two stages over their group.
void reduce_tied(Tape& t, std::vector<Op>& ops) {
  StepProgram const& p = t.program;
  std::vector<Bucket const*> tied;
  for (Bucket const& bucket : p.buckets)
    if (meets_copy(p, p.parameters[bucket.parameters.front()])) tied.push_back(&bucket);
  if (tied.empty()) return;
  std::int64_t const count = tied.front()->shard_elements;
  TensorRef const sum = reduced_gradient(*tied.front());
  auto const copy = [&](TensorRef from, TensorRef to, bool adds) {
    ops.push_back(t.make_op(OpKind::copy_block, BlockShape{1, count, 1}, "tied_embedding", {from}, {to}));
    ops.back().always_accumulate = adds;
  };
  for (std::size_t i = 1; i < tied.size(); ++i) copy(reduced_gradient(*tied[i]), sum, true);
  GroupId const group = id_of(GroupKind::tied_embedding);
  if (group_size(t, group) > 1)
    ops.push_back(
        t.make_collective(OpKind::all_reduce, group, count, t.experiment.gradient_dtype, "tied_embedding", sum, sum));
  for (std::size_t i = 1; i < tied.size(); ++i) copy(sum, reduced_gradient(*tied[i]), false);
}

}  // namespace

void add_copy_reductions(Tape& t) {
  t.set_phase("reduce");
  std::vector<Op> ops;
  reduce_mirrors(t, ops);
  reduce_tied(t, ops);
  if (!ops.empty()) t.program.segments.push_back({ActionKind::reduce, all_chunks, std::move(ops)});
}

std::vector<Op> optimizer_ops(Tape& t) {
  StepProgram& p = t.program;
  t.set_phase("optimizer");
  std::vector<Op> ops;
  for (Bucket const& bucket : p.buckets) {
    bool const own_shard = bucket.weight_shard != no_tensor;
    TensorRef const gradient = reduced_gradient(bucket);
    TensorRef const weight =
        own_shard ? TensorRef{bucket.weight_shard} : TensorRef{bucket.weights, bucket.shard_begin, 0};
    ops.push_back(t.make_op(OpKind::adamw, AdamWShape{bucket.shard_elements}, "adamw", {gradient, {p.clip.factor}},
                            {weight, {bucket.master}, {bucket.exp_avg}, {bucket.exp_avg_sq}}));
    if (own_shard || bucket.shard_elements == bucket.elements) continue;
    ops.push_back(t.make_collective(OpKind::all_gather, bucket.shard_group, bucket.elements, p.precision, "weights",
                                    weight, {bucket.weights}));
  }
  return ops;
}

}  // namespace shardbench
