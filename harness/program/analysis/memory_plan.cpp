#include "harness/program/analysis/memory_plan.hpp"

#include <algorithm>
#include <map>
#include <queue>
#include <span>
#include <utility>

#include "harness/program/analysis/lifetimes.hpp"
#include "harness/program/analysis/shared_places.hpp"

namespace shardbench {

namespace {

constexpr std::int64_t alignment = 256;
/// Where the bytes of roles that last for the whole run are counted.
constexpr EnumArray<TensorRole, std::int64_t MemoryPlan::*> bytes_by_role{
    {&MemoryPlan::parameter_bytes, &MemoryPlan::gradient_bytes, &MemoryPlan::optimizer_bytes, &MemoryPlan::buffer_bytes,
     &MemoryPlan::kv_cache_bytes}};

std::int64_t aligned(std::int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

/// Gives instances to overlapping intervals: the lowest number that is free at the interval's start.
std::int32_t colour(std::vector<RunInterval> const& intervals, std::vector<std::int32_t>& instance_of) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < intervals.size(); ++i)
    if (intervals[i].first >= 0) order.push_back(i);
  // Most schedules take the microbatches in their order.
  auto const start = [&](std::size_t i) { return std::pair(intervals[i].first, i); };
  if (!std::ranges::is_sorted(order, {}, start)) std::ranges::sort(order, {}, start);
  std::priority_queue<std::int32_t, std::vector<std::int32_t>, std::greater<>> free;
  using Taken = std::pair<std::int64_t, std::int32_t>;  // last run, instance
  std::priority_queue<Taken, std::vector<Taken>, std::greater<>> busy;
  std::int32_t count = 0;
  for (std::size_t const i : order) {
    while (!busy.empty() && busy.top().first < intervals[i].first) free.push(busy.top().second), busy.pop();
    if (free.empty()) free.push(count++);
    instance_of[i] = free.top();
    free.pop();
    busy.emplace(intervals[i].last, instance_of[i]);
  }
  return std::max(count, 1);
}

}  // namespace

class MemoryPlanner::Work {
 public:
  Work(StepProgram const& program, Replay const& replay) : p_(program), life_(program, replay), replay_(replay) {
    plan_.places.resize(p_.tensors.size());
    for (std::size_t id = 0; id < p_.tensors.size(); ++id) plan_.places[id].residence = life_.residence(id);
    place_persistent();
    place_slots();
  }

  MemoryPlan const& instances() {
    if (plan_.instance_count == 0) number_instances();
    return plan_;
  }

  MemoryPlan const& sizes() {
    if (plan_.microbatches_in_flight.empty()) walk();
    return plan_;
  }

  MemoryPlan const& whole() {
    sizes();
    instances();
    if (!std::exchange(has_temporaries_, true)) place_temporaries();
    return plan_;
  }

  MemoryPlan take() && { return std::move(plan_); }

 private:
  bool is_root(TensorId id) const { return p_.storage_of(id) == id; }

  void place_persistent() {
    for (std::size_t id = 0; id < p_.tensors.size(); ++id) {
      Tensor const& t = p_.tensors[id];
      auto& place = plan_.places[id];
      if (place.residence != Residence::persistent || !is_root(id)) continue;
      if (t.per_microbatch) {
        place.instances = static_cast<std::int32_t>(p_.microbatches);
        for (std::int32_t m = 0; m < place.instances; ++m) place.instance_of.push_back(m);
      }
      plan_.*bytes_by_role[t.role] += reserve(place, t.bytes());
    }
  }

  /// Reserves arena space for all instances; returns the bytes that are really used.
  std::int64_t reserve(MemoryPlan::Place& place, std::int64_t bytes) {
    place.offset = plan_.arena_bytes;
    place.stride = aligned(bytes);
    plan_.arena_bytes += place.stride * place.instances;
    return bytes * place.instances;
  }

  void place_slots() {
    share_whole_units();
    std::vector<TensorId> slots;
    for (Lifetimes::SlotClass const& alike : life_.slot_classes()) {
      std::vector<std::int32_t> instance_of(alike.intervals.size(), 0);
      std::int32_t const instances = colour(alike.intervals, instance_of);
      for (TensorId const id : alike.tensors) {
        if (shared_.contains(id)) continue;
        auto& place = plan_.places[id];
        place.instances = instances;
        place.instance_of = instance_of;
        slots.push_back(id);
      }
    }
    std::ranges::sort(slots);
    for (TensorId const id : slots) reserve(plan_.places[id], p_.tensors[id].bytes());
  }

  /// Gathered weights, gradients before they are cut into shards, and what the cut makes, of units that are never
  /// there at the same time take one another's place.
  void share_whole_units() {
    std::vector<SharedBlock> weights, gradients, parts;
    for (Bucket const& bucket : p_.buckets) {
      if (bucket.weight_shard == no_tensor) continue;
      weights.push_back({bucket.weights, life_.gathered(bucket.chunk)});
      add_alone(bucket.gradients, gradients);
      add_alone(bucket.reduced, parts);
    }
    give_places(weights);
    give_places(gradients);
    give_places(parts);
  }

  /// Adds a slot of which there is never more than one microbatch's at a time.
  void add_alone(TensorId id, std::vector<SharedBlock>& blocks) const {
    if (life_.residence(id) != Residence::slot) return;
    SharedBlock block{id, life_.intervals(id)};
    std::erase_if(block.taken, [](RunInterval const& t) { return t.first < 0; });
    std::ranges::sort(block.taken, {}, &RunInterval::first);
    auto const meet = [](RunInterval const& a, RunInterval const& b) { return b.first <= a.last; };
    if (std::ranges::adjacent_find(block.taken, meet) == block.taken.end()) blocks.push_back(std::move(block));
  }

  void give_places(std::vector<SharedBlock> const& blocks) {
    for (std::vector<TensorId> const& together : share_places(blocks)) {
      auto& first = plan_.places[together.front()];
      std::int64_t bytes = 0;
      for (TensorId const id : together) bytes = std::max(bytes, p_.tensors[id].bytes());
      reserve(first, bytes);
      for (TensorId const id : together) {
        shared_[id] = together.front();
        plan_.places[id].offset = first.offset;
        plan_.places[id].stride = first.stride;
      }
    }
  }

  /// A temporary and, for each segment that touches it, the ops during which it is taken.
  struct Block {
    TensorId id = no_tensor;
    std::int64_t bytes = 0, offset = 0;
    std::map<Segment const*, std::pair<std::int64_t, std::int64_t>> taken;
    bool meets(Block const& other) const {
      for (auto const& [segment, mine] : taken) {
        auto const it = other.taken.find(segment);
        if (it != other.taken.end() && it->second.first <= mine.second && mine.first <= it->second.second) return true;
      }
      return false;
    }
  };

  /// Temporaries of all segments, and views of them, share the space behind everything that stays: the largest first,
  /// each in the lowest gap that is free whenever it is needed.
  void place_temporaries() {
    std::map<TensorId, Block> blocks;
    for (Segment const* segment : life_.used_segments())
      for (TensorId const id : life_.touched(*segment)) {
        if (plan_.places[id].residence != Residence::temporary) continue;
        Block& block = blocks[id];
        block.id = id;
        block.bytes = aligned(p_.tensors[id].bytes());
        block.taken[segment] = {life_.op_range(*segment, id).first, life_.release(*segment, id)};
      }
    std::vector<Block> order;
    for (auto& [id, block] : blocks) order.push_back(std::move(block));
    std::ranges::stable_sort(order, [](Block const& a, Block const& b) { return a.bytes > b.bytes; });
    std::int64_t const base = plan_.arena_bytes;
    for (std::size_t i = 0; i < order.size(); ++i) {
      order[i].offset = lowest_gap(std::span(order).first(i), order[i]);
      auto& place = plan_.places[order[i].id];
      place.offset = base + order[i].offset;
      place.stride = order[i].bytes;
      plan_.arena_bytes = std::max(plan_.arena_bytes, place.offset + place.stride);
    }
    for (std::size_t id = 0; id < p_.tensors.size(); ++id) {
      auto const& root = plan_.places[p_.storage_of(id)];
      plan_.places[id].offset = root.offset;
      plan_.places[id].stride = root.stride;
    }
  }

  static std::int64_t lowest_gap(std::span<Block const> placed, Block const& block) {
    std::vector<std::pair<std::int64_t, std::int64_t>> busy;
    for (Block const& other : placed)
      if (other.meets(block)) busy.emplace_back(other.offset, other.offset + other.bytes);
    std::ranges::sort(busy);
    std::int64_t offset = 0;
    for (auto const& [begin, end] : busy) {
      if (begin >= offset + block.bytes) break;
      offset = std::max(offset, end);
    }
    return offset;
  }

  void number_instances() {
    for (std::size_t id = 0; id < p_.tensors.size(); ++id) {
      if (!is_root(id)) continue;
      auto const leader = shared_.find(id);
      if (leader != shared_.end() && leader->second != leader->first) continue;
      plan_.places[id].first_instance = plan_.instance_count;
      plan_.instance_count += plan_.places[id].instances;
    }
    // Whoever takes a place waits for those who had it.
    for (auto const& [id, leader] : shared_) plan_.places[id].first_instance = plan_.places[leader].first_instance;
    for (std::size_t id = 0; id < p_.tensors.size(); ++id)
      if (!is_root(id)) {
        plan_.places[id] = plan_.places[p_.storage_of(id)];
        if (!p_.tensors[id].apart) continue;
        plan_.places[id].first_instance = plan_.instance_count;
        plan_.instance_count += plan_.places[id].instances;
      }
  }

  void walk() {
    LivenessWalk const walk = walk_liveness(p_, replay_, life_);
    plan_.activation_peak_bytes = walk.peak_bytes;
    plan_.peak_run = walk.peak_run;
    plan_.kept_activation_bytes = walk.kept_bytes;
    plan_.microbatches_in_flight = walk.microbatches_in_flight;
  }

  StepProgram const& p_;
  Lifetimes life_;
  Replay const& replay_;
  MemoryPlan plan_;
  std::map<TensorId, TensorId> shared_;  ///< of a whole unit's tensor: the first of those in its place
  bool has_temporaries_ = false;
};

MemoryPlanner::MemoryPlanner(StepProgram const& program, Replay const& replay)
    : work_(std::make_unique<Work>(program, replay)) {
  ++memory_plans_made;
}
MemoryPlanner::~MemoryPlanner() = default;
MemoryPlan const& MemoryPlanner::instances() { return work_->instances(); }
MemoryPlan const& MemoryPlanner::sizes() { return work_->sizes(); }
MemoryPlan const& MemoryPlanner::whole() { return work_->whole(); }
MemoryPlan MemoryPlanner::take() && { return std::move(*work_).take(); }

namespace {

MemoryPlan planned(MemoryPlanner planner, MemoryPlan const& (MemoryPlanner::*part)()) {
  (planner.*part)();
  return std::move(planner).take();
}

}  // namespace

MemoryPlan plan_memory(StepProgram const& program, Replay const& replay) {
  return planned({program, replay}, &MemoryPlanner::whole);
}

MemoryPlan plan_instances(StepProgram const& program, Replay const& replay) {
  return planned({program, replay}, &MemoryPlanner::instances);
}

MemoryPlan plan_sizes(StepProgram const& program, Replay const& replay) {
  return planned({program, replay}, &MemoryPlanner::sizes);
}

std::int64_t MemoryPlan::offset_of(StepProgram const& program, TensorId id, std::int32_t microbatch) const {
  Place const& place = places[id];
  Tensor const& t = program.tensors[id];
  return place.offset + place.own_instance(microbatch) * place.stride +
         t.storage_offset * static_cast<std::int64_t>(bytes_of(t.dtype));
}

std::vector<std::pair<std::string, std::int64_t>> largest_tensors(StepProgram const& program, MemoryPlan const& plan,
                                                                  std::size_t count) {
  std::vector<std::pair<std::string, std::int64_t>> all;
  for (std::size_t id = 0; id < program.tensors.size(); ++id) {
    auto const& place = plan.places[id];
    if (place.residence == Residence::unused || program.storage_of(id) != TensorId(id)) continue;
    all.emplace_back(program.tensors[id].name, program.tensors[id].bytes() * place.instances);
  }
  std::ranges::stable_sort(all, [](auto const& a, auto const& b) { return a.second > b.second; });
  if (all.size() > count) all.resize(count);
  return all;
}

}  // namespace shardbench
