#include "harness/program/buckets.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

constexpr auto tp_axis = static_cast<std::size_t>(Axis::tp);
constexpr auto cp_axis = static_cast<std::size_t>(Axis::cp);
constexpr auto dp_axis = static_cast<std::size_t>(Axis::dp);

/// Which groups a gradient is summed over; parameters with equal answers may share a bucket.
std::vector<std::int32_t> reduce_groups(StepProgram const& p, GroupIds const& groups, Parameter const& parameter,
                                        std::array<bool, axis_count> const& partial) {
  std::vector<std::int32_t> over;
  auto const use = [&](char const* name) {
    std::int32_t const id = groups.at(name);
    if (p.groups[static_cast<std::size_t>(id)].members.size() > 1) over.push_back(id);
  };
  if (parameter.expert) {
    use("edp");
    return over;
  }
  if (partial[tp_axis]) use("tp");
  if (partial[dp_axis] && partial[cp_axis])
    use("dp_cp");
  else if (partial[dp_axis])
    use("dp");
  else if (partial[cp_axis])
    use("cp");
  return over;
}

/// A weight that another stage holds a copy of: the copies' gradients are summed whole, so it is never cut over dp.
bool meets_copy(StepProgram const& p, Parameter const& parameter) {
  return parameter.tied && std::ranges::any_of(p.groups, [](Group const& g) {
           return g.name == "tied_embedding" && g.members.size() > 1;
         });
}

/// The group that a bucket's shards are spread over: the data-parallel one it is reduced over; -1 when there is none.
std::int32_t shard_group(StepProgram const& p, Bucket const& bucket) {
  for (std::int32_t const group : bucket.reduce_groups)
    if (p.groups[static_cast<std::size_t>(group)].axis == Axis::dp) return group;
  return -1;
}

/// Position of the last op that writes one of the bucket's gradients.
std::size_t last_writer(StepProgram const& p, Bucket const& bucket, std::vector<Op> const& ops) {
  std::size_t last = 0;
  for (std::size_t i = 0; i < ops.size(); ++i)
    for (TensorRef const& out : ops[i].outputs)
      for (std::int32_t const index : bucket.parameters)
        if (out.id == p.parameters[static_cast<std::size_t>(index)].gradient) last = i;
  return last;
}

TensorId root(StepProgram& p, GraphBuilder& b, std::string const& name, TensorRole role, Dtype dtype,
              std::int64_t elements, std::int32_t chunk) {
  TensorId const id = b.new_tensor(name, role, dtype, elements, 1);
  p.tensors[static_cast<std::size_t>(id)].chunk = chunk;
  return id;
}

void lay_out(StepProgram& p, GraphBuilder& b, Experiment const& e, Bucket& bucket, std::int32_t index) {
  std::int64_t offset = 0;
  auto const place = [&](TensorId id, TensorId storage) {
    p.tensors[static_cast<std::size_t>(id)].storage = storage;
    p.tensors[static_cast<std::size_t>(id)].storage_offset = offset;
  };
  bool const whole = std::ranges::any_of(
      bucket.parameters, [&](std::int32_t i) { return meets_copy(p, p.parameters[static_cast<std::size_t>(i)]); });
  std::int32_t const over = shard_group(p, bucket);
  bool const sharded = e.parallel.zero_stage > 0 && over >= 0 && !whole;
  auto const members = sharded ? p.groups[static_cast<std::size_t>(over)].members : std::vector<std::int64_t>{p.rank};
  auto const shards = static_cast<std::int64_t>(members.size());
  for (std::int32_t const parameter : bucket.parameters)
    bucket.elements += (p.parameters[static_cast<std::size_t>(parameter)].elements() + 15) / 16 * 16;
  // Shards are whole vectors, so every rank's part starts aligned.
  std::int64_t const unit = 16 * shards;
  bucket.elements = (bucket.elements + unit - 1) / unit * unit;
  bucket.shard_elements = bucket.elements / shards;
  bucket.shard_begin = bucket.shard_elements * (std::ranges::find(members, p.rank) - members.begin());
  std::string const name = fmt::format("bucket{}", index);
  TensorRole const full = e.parallel.zero_stage == 3 && sharded ? TensorRole::activation : TensorRole::parameter;
  bucket.weights = root(p, b, name + ".weights", full, p.precision, bucket.elements, bucket.chunk);
  bucket.gradients =
      root(p, b, name + ".gradients", full == TensorRole::activation ? TensorRole::activation : TensorRole::gradient,
           Dtype::f32, bucket.elements, bucket.chunk);
  for (std::int32_t const i : bucket.parameters) {
    Parameter& parameter = p.parameters[static_cast<std::size_t>(i)];
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
  if (full == TensorRole::activation) {
    bucket.weight_shard =
        root(p, b, name + ".weight_shard", TensorRole::parameter, p.precision, bucket.shard_elements, bucket.chunk);
    bucket.gradient_shard =
        root(p, b, name + ".gradient_shard", TensorRole::gradient, Dtype::f32, bucket.shard_elements, bucket.chunk);
    bucket.reduced =
        root(p, b, name + ".reduced", TensorRole::temporary, Dtype::f32, bucket.shard_elements, bucket.chunk);
  }
}

void insert_reductions(StepProgram& p, GraphBuilder& b, std::int32_t first_bucket, std::vector<Op>& backward) {
  // From the last position back, so that earlier positions stay right.
  std::vector<std::pair<std::size_t, std::int32_t>> places;
  for (auto i = static_cast<std::size_t>(first_bucket); i < p.buckets.size(); ++i)
    places.emplace_back(last_writer(p, p.buckets[i], backward), static_cast<std::int32_t>(i));
  std::ranges::sort(places, std::greater<>{});
  for (auto const& [position, index] : places) {
    Bucket const& bucket = p.buckets[static_cast<std::size_t>(index)];
    std::vector<Op> reductions;
    for (std::int32_t const group : bucket.reduce_groups) {
      bool const data = p.groups[static_cast<std::size_t>(group)].axis == Axis::dp;
      TensorRef const whole{bucket.gradients, 0, 0};
      Op op =
          bucket.shard_elements < bucket.elements && data
              ? b.make_collective(OpKind::reduce_scatter, group, bucket.elements, Dtype::f32, "gradients", whole,
                                  {bucket.gradients, bucket.shard_begin, 0})
              : b.make_collective(OpKind::all_reduce, group, bucket.elements, Dtype::f32, "gradients", whole, whole);
      op.when = When::last;
      op.part = BackwardPart::weight;
      reductions.push_back(std::move(op));
    }
    backward.insert(backward.begin() + static_cast<std::ptrdiff_t>(position) + 1, reductions.begin(), reductions.end());
  }
}

/// ZeRO-3 reduces after every backward: gradients of a microbatch overwrite, and the shard adds them up.
void reduce_every_time(StepProgram const& p, std::vector<Op>& backward) {
  for (Op& op : backward)
    for (TensorRef const& out : op.outputs)
      if (out.valid() && p.tensors[static_cast<std::size_t>(out.id)].role == TensorRole::gradient && op.accumulate)
        op.accumulate = false;
}

}  // namespace

void add_buckets(StepProgram& p, GraphBuilder& b, Experiment const& e, GroupIds const& groups, std::int32_t chunk,
                 std::int32_t first_parameter, std::vector<Op>& backward) {
  auto const first_bucket = static_cast<std::int32_t>(p.buckets.size());
  bool const fully_sharded = e.parallel.zero_stage == 3 && e.parallel.dp > 1;
  if (fully_sharded) reduce_every_time(p, backward);
  // Backward reaches the last parameter first.
  std::map<std::tuple<std::vector<std::int32_t>, bool, bool>, std::int32_t> open;
  for (auto i = static_cast<std::int32_t>(p.parameters.size()); i-- > first_parameter;) {
    Parameter const& parameter = p.parameters[static_cast<std::size_t>(i)];
    auto const over = reduce_groups(p, groups, parameter, b.gradient_partial[static_cast<std::size_t>(i)]);
    auto const key = std::tuple{over, parameter.expert, e.parallel.zero_stage > 0 && meets_copy(p, parameter)};
    auto it = open.find(key);
    double const bytes =
        it == open.end() ? 0 : static_cast<double>(p.buckets[static_cast<std::size_t>(it->second)].elements) * 4;
    // `elements` holds the running sum until the bucket is laid out.
    if (it == open.end() || (!over.empty() && bytes >= e.bucket_mb * 1e6)) {
      open[key] = static_cast<std::int32_t>(p.buckets.size());
      p.buckets.emplace_back();
      p.buckets.back().reduce_groups = over;
      p.buckets.back().chunk = chunk;
      it = open.find(key);
    }
    Bucket& bucket = p.buckets[static_cast<std::size_t>(it->second)];
    bucket.parameters.push_back(i);
    bucket.elements += parameter.elements();
  }
  for (auto i = static_cast<std::size_t>(first_bucket); i < p.buckets.size(); ++i) {
    p.buckets[i].elements = 0;
    lay_out(p, b, e, p.buckets[i], static_cast<std::int32_t>(i));
  }
  if (!fully_sharded) insert_reductions(p, b, first_bucket, backward);
}

void add_shard_segments(StepProgram& p, GraphBuilder& b, std::int32_t chunk) {
  b.begin_chunk(chunk);
  Segment gather{ActionKind::gather, chunk, {}}, reduce{ActionKind::reduce, chunk, {}};
  for (Bucket const& bucket : p.buckets) {
    if (bucket.chunk != chunk || bucket.weight_shard == no_tensor) continue;
    std::int32_t const group = bucket.reduce_groups.back();
    b.set_phase("gather");
    gather.ops.push_back(b.make_collective(OpKind::all_gather, group, bucket.elements, p.precision, "weights",
                                           {bucket.weight_shard, 0, 0}, {bucket.weights, 0, 0}));
    b.set_phase("reduce");
    for (std::int32_t const over : bucket.reduce_groups) {
      TensorRef const whole{bucket.gradients, 0, 0};
      if (over == group)
        reduce.ops.push_back(b.make_collective(OpKind::reduce_scatter, over, bucket.elements, Dtype::f32, "gradients",
                                               whole, {bucket.reduced, 0, 0}));
      else
        reduce.ops.push_back(
            b.make_collective(OpKind::all_reduce, over, bucket.elements, Dtype::f32, "gradients", whole, whole));
    }
    Op add = b.make_op(OpKind::copy_block, BlockShape{1, bucket.shard_elements, 1}, "gradients.add",
                       {{bucket.reduced, 0, 0}}, {{bucket.gradient_shard, 0, 0}});
    add.accumulate = true;
    reduce.ops.push_back(std::move(add));
  }
  p.segments.push_back(std::move(gather));
  p.segments.push_back(std::move(reduce));
}

namespace {

void reduce_copies(StepProgram const& p, GraphBuilder& b, GroupIds const& groups, std::vector<Op>& ops) {
  auto const size = [&](char const* name) {
    return p.groups[static_cast<std::size_t>(groups.at(name))].members.size();
  };
  bool const mirrored = size("pipeline_mirror") > 1;
  // Both ranks hold the same two pieces in opposite chunks: the order of the pieces is the one they share.
  std::vector<Bucket> buckets = mirrored ? p.buckets : std::vector<Bucket>{};
  std::ranges::stable_sort(
      buckets, {}, [&](Bucket const& bucket) { return p.chunks[static_cast<std::size_t>(bucket.chunk)].piece; });
  for (Bucket const& bucket : buckets) {
    TensorRef const whole{bucket.gradients, 0, 0};
    ops.push_back(b.make_collective(OpKind::all_reduce, groups.at("pipeline_mirror"), bucket.elements, Dtype::f32,
                                    "mirror_gradients", whole, whole));
  }
  if (mirrored || size("tied_embedding") < 2) return;
  for (Parameter const& parameter : p.parameters) {
    if (!parameter.tied) continue;
    TensorRef const whole{parameter.gradient, 0, 0};
    ops.push_back(b.make_collective(OpKind::all_reduce, groups.at("tied_embedding"), parameter.elements(), Dtype::f32,
                                    "tied_embedding", whole, whole));
  }
}

}  // namespace

void add_copy_reductions(StepProgram& p, GraphBuilder& b, GroupIds const& groups) {
  b.set_phase("reduce");
  std::vector<Op> ops;
  reduce_copies(p, b, groups, ops);
  if (!ops.empty()) p.segments.push_back({ActionKind::reduce, all_chunks, std::move(ops)});
}

std::vector<Op> optimizer_ops(StepProgram& p, GraphBuilder& b) {
  b.set_phase("optimizer");
  std::vector<Op> ops;
  for (Bucket const& bucket : p.buckets) {
    bool const own_shard = bucket.weight_shard != no_tensor;
    TensorRef const gradient =
        own_shard ? TensorRef{bucket.gradient_shard, 0, 0} : TensorRef{bucket.gradients, bucket.shard_begin, 0};
    TensorRef const weight =
        own_shard ? TensorRef{bucket.weight_shard, 0, 0} : TensorRef{bucket.weights, bucket.shard_begin, 0};
    TensorRef const master = bucket.master == no_tensor ? TensorRef{} : TensorRef{bucket.master, 0, 0};
    TensorRef const factor = p.clip_factor == no_tensor ? TensorRef{} : TensorRef{p.clip_factor, 0, 0};
    ops.push_back(b.make_op(OpKind::adamw, AdamWShape{bucket.shard_elements}, "adamw", {gradient, factor},
                            {weight, master, {bucket.exp_avg, 0, 0}, {bucket.exp_avg_sq, 0, 0}}));
    if (own_shard || bucket.shard_elements == bucket.elements) continue;
    ops.push_back(b.make_collective(OpKind::all_gather, bucket.reduce_groups.back(), bucket.elements, p.precision,
                                    "weights", weight, {bucket.weights, 0, 0}));
  }
  return ops;
}

}  // namespace shardbench
