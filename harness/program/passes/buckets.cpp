#include "harness/program/passes/buckets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

std::int64_t group_size(StepProgram const& p, GroupId group) { return std::ssize(p.groups[group].members); }

/// A weight that another chunk holds a copy of: in a bucket of its own, so that its shards are those of the copies.
bool meets_copy(StepProgram const& p, Parameter const& parameter) {
  Chunk const& chunk = p.chunks[parameter.chunk];
  return parameter.tied && !(chunk.has_embedding && chunk.has_head);
}

Dtype gradient_dtype(StepProgram const& p, Bucket const& bucket) { return p.tensors[bucket.gradients].dtype; }

/// Which groups a gradient is summed over, and which of them its states are sharded over.
struct Reduction {
  std::vector<GroupId> groups;
  GroupId shard_group;
  bool operator<(Reduction const& other) const {
    return std::tie(groups, shard_group) < std::tie(other.groups, other.shard_group);
  }
};

/// Parameters with equal answers may share a bucket.
Reduction reduction_of(StepProgram const& p, Experiment const& e, Parameter const& parameter,
                       EnumArray<Axis, bool> const& partial) {
  Reduction r;
  auto const use = [&](GroupKind kind) {
    bool const meets = group_size(p, id_of(kind)) > 1;
    if (meets) r.groups.push_back(id_of(kind));
    return meets;
  };
  // One rank may hold a whole shard set: there is nothing to cut then, only copies to sum.
  auto const use_shards = [&](GroupKind shard, GroupKind replica) {
    if (use(shard)) r.shard_group = id_of(shard);
    use(replica);
  };
  bool const sharded = e.cut.zero_stage > 0;
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

TensorId root(StepProgram& p, Tape& b, std::string const& name, TensorRole role, Dtype dtype,
              std::int64_t elements, std::int32_t chunk) {
  TensorId const id = b.new_tensor(name, role, dtype, elements, 1);
  p.tensors[id].chunk = chunk;
  return id;
}

void lay_out(StepProgram& p, Tape& b, Experiment const& e, Bucket& bucket, BucketId index) {
  std::int64_t offset = 0;
  auto const place = [&](TensorId id, TensorId storage) {
    p.tensors[id].storage = storage;
    p.tensors[id].storage_offset = offset;
  };
  bool const sharded = bucket.shard_group.valid();
  for (ParameterId const parameter : bucket.parameters)
    bucket.elements += (p.parameters[parameter].elements() + 15) / 16 * 16;
  // Shards are whole vectors, so every rank's part starts aligned.
  std::int64_t const shards = sharded ? group_size(p, bucket.shard_group) : 1;
  bucket.elements = (bucket.elements + 16 * shards - 1) / (16 * shards) * (16 * shards);
  bucket.shard_elements = bucket.elements / shards;
  if (sharded) {
    auto const& members = p.groups[bucket.shard_group].members;
    bucket.shard_begin = bucket.shard_elements * (std::ranges::find(members, p.rank) - members.begin());
  }
  std::string const name = fmt::format("bucket{}", std::int32_t{index});
  bool const gathered = e.cut.zero_stage == 3 && sharded;
  // From ZeRO 2 on the whole gradient is a microbatch's, unless it is kept; ZeRO 3 kept ones are cut at the end.
  bool const kept = e.cut.zero_keep == ZeroKeep::all, cut = sharded && (gathered || (e.cut.zero_stage == 2 && !kept));
  bucket.weights = root(p, b, name + ".weights", gathered ? TensorRole::activation : TensorRole::parameter, p.precision,
                        bucket.elements, bucket.chunk);
  bucket.gradients = root(p, b, name + ".gradients", cut && !kept ? TensorRole::activation : TensorRole::gradient,
                          e.gradient_dtype, bucket.elements, bucket.chunk);
  for (ParameterId const i : bucket.parameters) {
    Parameter& parameter = p.parameters[i];
    parameter.bucket = index;
    place(parameter.weight, bucket.weights);
    place(parameter.gradient, bucket.gradients);
    offset += (parameter.elements() + 15) / 16 * 16;
  }
  if (p.precision != Dtype::f32)
    bucket.master =
        root(p, b, name + ".master", TensorRole::optimizer, Dtype::f32, bucket.shard_elements, bucket.chunk);
  bucket.exp_avg =
      root(p, b, name + ".exp_avg", TensorRole::optimizer, Dtype::f32, bucket.shard_elements, bucket.chunk);
  bucket.exp_avg_sq =
      root(p, b, name + ".exp_avg_sq", TensorRole::optimizer, Dtype::f32, bucket.shard_elements, bucket.chunk);
  if (gathered)
    bucket.weight_shard =
        root(p, b, name + ".weight_shard", TensorRole::parameter, p.precision, bucket.shard_elements, bucket.chunk);
  if (cut) {
    bucket.gradient_shard = root(p, b, name + ".gradient_shard", TensorRole::gradient, e.gradient_dtype,
                                 bucket.shard_elements, bucket.chunk);
    bucket.reduced =
        root(p, b, name + ".reduced", TensorRole::temporary, e.gradient_dtype, bucket.shard_elements, bucket.chunk);
  }
}

/// A microbatch's gradient is cut and added to the shard; copies of the shard agree once a step.
std::vector<Op> shard_reduction_ops(StepProgram const& p, Tape& b, Bucket const& bucket) {
  std::vector<Op> ops;
  TensorRef const whole{bucket.gradients, 0, 0}, sum{bucket.gradient_shard, 0, 0}, part{bucket.reduced, 0, 0};
  Dtype const dtype = gradient_dtype(p, bucket);
  bool cut = false;
  for (GroupId const over : bucket.reduce_groups) {
    if (over == bucket.shard_group) {
      ops.push_back(b.make_collective(OpKind::reduce_scatter, over, bucket.elements, dtype, "gradients", whole, part));
      ops.push_back(
          b.make_op(OpKind::copy_block, BlockShape{1, bucket.shard_elements, 1}, "gradients.add", {part}, {sum}));
      ops.back().accumulate = true;
      ops.back().after.push_back(whole);  // whose place is taken until then: the next pass does not wait for this one's
      cut = true;
      continue;
    }
    TensorRef const what = cut ? sum : whole;
    ops.push_back(b.make_collective(OpKind::all_reduce, over, cut ? bucket.shard_elements : bucket.elements, dtype,
                                    "gradients", what, what));
    if (cut) ops.back().when = When::last;
  }
  return ops;
}

/// Sums of a bucket's gradients: whole until they are cut into shards, the own shard from there on.
std::vector<Op> reduction_ops(StepProgram const& p, Tape& b, Bucket const& bucket) {
  std::vector<Op> ops;
  TensorRef const whole{bucket.gradients, 0, 0}, shard{bucket.gradients, bucket.shard_begin, 0};
  bool cut = false;
  for (GroupId const group : bucket.reduce_groups) {
    bool const cuts = group == bucket.shard_group;
    TensorRef const from = cut ? shard : whole, to = cut || cuts ? shard : whole;
    ops.push_back(b.make_collective(cuts ? OpKind::reduce_scatter : OpKind::all_reduce, group,
                                    cut ? bucket.shard_elements : bucket.elements, gradient_dtype(p, bucket),
                                    "gradients", from, to));
    cut = cut || cuts;
    ops.back().when = When::last;
    ops.back().part = BackwardPart::weight;
  }
  return ops;
}

/// The first op of a shard's reduction that takes what the collective made: it and what follows can come later.
auto first_addition(std::vector<Op>& ops) {
  return std::ranges::find_if(ops, [](Op const& op) { return !is_communication(op.kind); });
}

/// Puts each bucket's collectives behind the last op that writes to it. What adds its cut gradient to the shard comes
/// with the next bucket, so that the collective runs beside the backward pass between them; returns the last one's.
std::vector<Op> insert_reductions(StepProgram& p, Tape& b, BucketId first_bucket, std::vector<Op>& backward) {
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
      std::vector<Op> ops = cut ? shard_reduction_ops(p, b, bucket) : reduction_ops(p, b, bucket);
      for (Op& op : ops) op.part = BackwardPart::weight;
      auto const addition = first_addition(ops);
      std::move(ops.begin(), addition, std::back_inserter(out));
      std::move(addition, ops.end(), std::back_inserter(late));
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

void add_buckets(StepProgram& p, Tape& b, Experiment const& e, std::int32_t chunk, ParameterId first_parameter,
                 bool splits_backward, std::vector<Op>& backward) {
  BucketId const first_bucket(p.buckets.size());
  // Backward reaches the last parameter first.
  // Whole gradients of a microbatch are kept from part to part of its backward pass, so those of either part lie apart.
  std::set<TensorId> early;
  if (splits_backward && e.cut.zero_stage > 1) early = early_gradients(backward);
  std::map<std::tuple<Reduction, bool, bool, bool>, BucketId> open;
  for (auto i = static_cast<std::int32_t>(p.parameters.size()); i-- > first_parameter;) {
    Parameter const& parameter = p.parameters[i];
    auto const over = reduction_of(p, e, parameter, b.gradient_partial[i]);
    auto const key = std::tuple{over, parameter.expert, meets_copy(p, parameter), early.contains(parameter.gradient)};
    auto it = open.find(key);
    // `elements` holds the running sum until the bucket is laid out.
    double const elements = it == open.end() ? 0 : static_cast<double>(p.buckets[it->second].elements);
    bool const full = elements * static_cast<double>(bytes_of(e.gradient_dtype)) >= e.bucket_mb * 1e6;
    if (it == open.end() || (!over.groups.empty() && full)) {
      Bucket fresh;
      fresh.reduce_groups = over.groups;
      fresh.shard_group = over.shard_group;
      fresh.chunk = chunk;
      it = open.insert_or_assign(key, p.buckets.add(std::move(fresh))).first;
    }
    Bucket& bucket = p.buckets[it->second];
    bucket.parameters.push_back(i);
    bucket.elements += parameter.elements();
  }
  for (std::int32_t i = first_bucket; i < std::ssize(p.buckets); ++i) {
    p.buckets[i].elements = 0;
    lay_out(p, b, e, p.buckets[i], i);
  }
  std::vector<Op> last = insert_reductions(p, b, first_bucket, backward);
  reduce_every_time(p, backward);
  if (!last.empty()) p.segments.push_back({ActionKind::add, chunk, std::move(last)});
}

void add_shard_segments(StepProgram& p, Tape& b, std::int32_t chunk) {
  b.begin_chunk(chunk);
  Segment gather{ActionKind::gather, chunk, {}}, reduce{ActionKind::reduce, chunk, {}}, add{ActionKind::add, chunk, {}};
  for (Bucket const& bucket : p.buckets) {
    if (bucket.chunk != chunk || bucket.weight_shard == no_tensor) continue;
    b.set_phase("gather");
    gather.ops.push_back(b.make_collective(OpKind::all_gather, bucket.shard_group, bucket.elements, p.precision,
                                           "weights", {bucket.weight_shard, 0, 0}, {bucket.weights, 0, 0}));
    b.set_phase("reduce");
    std::vector<Op> ops = shard_reduction_ops(p, b, bucket);
    auto const addition = first_addition(ops);
    std::move(ops.begin(), addition, std::back_inserter(reduce.ops));
    std::move(addition, ops.end(), std::back_inserter(add.ops));
  }
  p.segments.push_back(std::move(gather));
  p.segments.push_back(std::move(reduce));
  if (!add.ops.empty()) p.segments.push_back(std::move(add));
}

namespace {

/// What this rank holds of a bucket's reduced gradient.
TensorRef reduced_gradient(Bucket const& bucket) {
  return bucket.gradient_shard != no_tensor ? TensorRef{bucket.gradient_shard, 0, 0}
                                            : TensorRef{bucket.gradients, bucket.shard_begin, 0};
}

void reduce_mirrors(StepProgram const& p, Tape& b, std::vector<Op>& ops) {
  GroupId const mirror = id_of(GroupKind::pipeline_mirror);
  if (group_size(p, mirror) < 2) return;
  // Both ranks hold the same two pieces in opposite chunks: the order of the pieces is the one they share.
  std::vector<Bucket> buckets = p.buckets;
  std::ranges::stable_sort(buckets, {}, [&](Bucket const& bucket) { return p.chunks[bucket.chunk].piece; });
  for (Bucket const& bucket : buckets) {
    TensorRef const sum = reduced_gradient(bucket);
    ops.push_back(b.make_collective(OpKind::all_reduce, mirror, bucket.shard_elements, gradient_dtype(p, bucket),
                                    "mirror_gradients", sum, sum));
  }
}

/// Copies of a tied weight in two chunks of this rank meet here, those of two stages over their group.
void reduce_tied(StepProgram const& p, Tape& b, std::vector<Op>& ops) {
  std::vector<Bucket const*> tied;
  for (Bucket const& bucket : p.buckets)
    if (meets_copy(p, p.parameters[bucket.parameters.front()])) tied.push_back(&bucket);
  if (tied.empty()) return;
  std::int64_t const count = tied.front()->shard_elements;
  TensorRef const sum = reduced_gradient(*tied.front());
  auto const copy = [&](TensorRef from, TensorRef to, bool adds) {
    ops.push_back(b.make_op(OpKind::copy_block, BlockShape{1, count, 1}, "tied_embedding", {from}, {to}));
    ops.back().always_accumulate = adds;
  };
  for (std::size_t i = 1; i < tied.size(); ++i) copy(reduced_gradient(*tied[i]), sum, true);
  GroupId const group = id_of(GroupKind::tied_embedding);
  if (group_size(p, group) > 1)
    ops.push_back(b.make_collective(OpKind::all_reduce, group, count, gradient_dtype(p, *tied.front()),
                                    "tied_embedding", sum, sum));
  for (std::size_t i = 1; i < tied.size(); ++i) copy(sum, reduced_gradient(*tied[i]), false);
}

}  // namespace

void add_copy_reductions(StepProgram& p, Tape& b) {
  b.set_phase("reduce");
  std::vector<Op> ops;
  reduce_mirrors(p, b, ops);
  reduce_tied(p, b, ops);
  if (!ops.empty()) p.segments.push_back({ActionKind::reduce, all_chunks, std::move(ops)});
}

std::vector<Op> optimizer_ops(StepProgram& p, Tape& b) {
  b.set_phase("optimizer");
  std::vector<Op> ops;
  for (Bucket const& bucket : p.buckets) {
    bool const own_shard = bucket.weight_shard != no_tensor;
    TensorRef const gradient = reduced_gradient(bucket);
    TensorRef const weight =
        own_shard ? TensorRef{bucket.weight_shard, 0, 0} : TensorRef{bucket.weights, bucket.shard_begin, 0};
    TensorRef const master = bucket.master == no_tensor ? TensorRef{} : TensorRef{bucket.master, 0, 0};
    TensorRef const factor = p.clip.factor == no_tensor ? TensorRef{} : TensorRef{p.clip.factor, 0, 0};
    ops.push_back(b.make_op(OpKind::adamw, AdamWShape{bucket.shard_elements}, "adamw", {gradient, factor},
                            {weight, master, {bucket.exp_avg, 0, 0}, {bucket.exp_avg_sq, 0, 0}}));
    if (own_shard || bucket.shard_elements == bucket.elements) continue;
    ops.push_back(b.make_collective(OpKind::all_gather, bucket.shard_group, bucket.elements, p.precision, "weights",
                                    weight, {bucket.weights, 0, 0}));
  }
  return ops;
}

}  // namespace shardbench
