#include "harness/program/analysis/lifetimes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

bool lasts(TensorRole role) { return role != TensorRole::activation && role != TensorRole::temporary; }

}  // namespace

Lifetimes::Lifetimes(StepProgram const& program, Replay const& replay)
    : p_(program),
      replay_(replay),
      touches_(program.segments.size()),
      residence_(program.tensors.size(), Residence::unused) {
  std::vector<std::int32_t> position(p_.tensors.size(), -1);
  std::vector<bool> scanned(p_.segments.size());
  for (Run const& run : replay.runs()) {
    if (!run.segment || scanned[index_of(*run.segment)]) continue;
    scanned[index_of(*run.segment)] = true;
    used_.push_back(run.segment);
    scan(*run.segment, position);
  }
  for (std::size_t id = 0; id < p_.tensors.size(); ++id)
    if (lasts(p_.tensors[id].role)) residence_[id] = Residence::persistent;
  for (SegmentTouches const& touches : touches_)
    for (Touch const& touch : touches.by_tensor) {
      auto& r = residence_[touch.id];
      if (r == Residence::persistent) continue;
      // Read before it is written: the bytes come from an earlier segment and must be kept for it.
      if (!touch.written_first)
        r = Residence::slot;
      else if (r == Residence::unused)
        r = Residence::temporary;
    }
  find_classes(replay);
}

Residence Lifetimes::residence(TensorId id) const { return residence_[p_.storage_of(id)]; }

void Lifetimes::scan(Segment const& segment, std::vector<std::int32_t>& position) {
  SegmentTouches& touches = touches_[index_of(segment)];
  auto const touch = [&](TensorId id, std::int64_t op, bool writes, bool communicates) {
    TensorId const root = p_.storage_of(id);
    std::int32_t& at = position[root];
    if (at < 0) {
      at = static_cast<std::int32_t>(touches.order.size());
      touches.order.push_back(root);
      touches.by_tensor.push_back({root, op, op, writes, {}});
    }
    Touch& found = touches.by_tensor[at];
    found.last = op;
    if (communicates) found.communication.push_back(op);
  };
  for (std::size_t i = 0; i < segment.ops.size(); ++i) {
    Op const& op = segment.ops[i];
    bool const communicates = op.stream != StreamId::compute;
    each_operand(
        op, [&](TensorRef const& ref) { touch(ref.id, i, false, communicates); },
        [&](TensorRef const& ref) { touch(ref.id, i, !op.always_accumulate, communicates); });
  }
  for (TensorId const id : touches.order) position[id] = -1;
  std::ranges::sort(touches.by_tensor, {}, &Touch::id);
}

Lifetimes::Touch const& Lifetimes::touch_of(Segment const& segment, TensorId id) const {
  auto const& touches = touches_[index_of(segment)].by_tensor;
  auto const found = std::ranges::lower_bound(touches, id, {}, &Touch::id);
  EXPECT(found != touches.end() && found->id == id);
  return *found;
}

std::pair<std::int64_t, std::int64_t> Lifetimes::op_range(Segment const& segment, TensorId id) const {
  Touch const& t = touch_of(segment, id);
  return {t.first, t.last};
}

std::int64_t Lifetimes::waiter(Segment const& segment, std::int64_t op) const {
  for (std::int64_t i = op + 1; i < std::ssize(segment.ops); ++i)
    if (segment.ops[i].stream == StreamId::compute && p_.waits_for(segment.ops[i], segment.ops[op])) return i;
  return -1;
}

std::int64_t Lifetimes::release(Segment const& segment, TensorId id) const {
  Touch const& t = touch_of(segment, id);
  std::int64_t until = t.last;
  for (std::int64_t const op : t.communication) {
    std::int64_t const end = waiter(segment, op);
    VALIDATE(end >= 0 || op != t.last,
             fmt::format("temporary '{}' is last used by a communication that nothing waits for", p_.tensors[id].name));
    until = std::max(until, end >= 0 ? end : static_cast<std::int64_t>(segment.ops.size()) - 1);
  }
  return until;
}

bool Lifetimes::freed_by_action(TensorId id) const {
  return std::ranges::any_of(p_.buckets,
                             [&](Bucket const& b) { return b.weight_shard != no_tensor && b.weights == id; });
}

std::vector<RunInterval> Lifetimes::gathered(std::int32_t chunk) const {
  std::vector<RunInterval> intervals;
  for (std::size_t r = 0; r < replay_.runs().size(); ++r) {
    Run const& run = replay_.runs()[r];
    auto const at = static_cast<std::int64_t>(r);
    if (run.chunk != chunk) continue;
    if (run.kind == ActionKind::gather) intervals.push_back({at, at});
    if (run.kind == ActionKind::free && !intervals.empty()) intervals.back().last = at;
  }
  return intervals;
}

void Lifetimes::find_classes(Replay const& replay) {
  // What touches a tensor: segments by their number, transfers by numbers behind those of the segments.
  std::vector<std::vector<std::int32_t>> touched_by(p_.tensors.size());
  auto const segments = static_cast<std::int32_t>(p_.segments.size());
  for (std::size_t t = 0; t < replay.transfers().size(); ++t)
    for (auto const* refs : {&replay.transfers()[t].inputs, &replay.transfers()[t].outputs})
      for (TensorRef const& ref : *refs) {
        TensorId const root = p_.storage_of(ref.id);
        residence_[root] = Residence::slot;
        touched_by[root].push_back(segments + static_cast<std::int32_t>(t));
      }
  for (std::size_t s = 0; s < touches_.size(); ++s)
    for (Touch const& touch : touches_[s].by_tensor) touched_by[touch.id].push_back(static_cast<std::int32_t>(s));
  std::map<std::pair<bool, std::vector<std::int32_t>>, std::size_t> known;
  class_of_.assign(p_.tensors.size(), -1);
  std::vector<std::vector<std::int32_t>> met_by(p_.segments.size() + replay.transfers().size());
  for (std::size_t i = 0; i < residence_.size(); ++i) {
    auto const id = static_cast<TensorId>(i);
    if (residence_[i] != Residence::slot) continue;
    bool const freed = freed_by_action(id);
    auto const [found, fresh] = known.try_emplace({freed, touched_by[i]}, classes_.size());
    if (fresh) {
      for (std::int32_t const by : touched_by[i]) met_by[by].push_back(static_cast<std::int32_t>(classes_.size()));
      classes_.push_back({{}, std::vector<RunInterval>(p_.microbatches), 0, freed});
    }
    class_of_[i] = static_cast<std::int32_t>(found->second);
    classes_[found->second].tensors.push_back(id);
    classes_[found->second].bytes += p_.tensors[i].bytes();
  }
  find_intervals(replay, met_by);
}

void Lifetimes::find_intervals(Replay const& replay, std::vector<std::vector<std::int32_t>> const& met_by) {
  for (std::size_t r = 0; r < replay.runs().size(); ++r) {
    Run const& run = replay.runs()[r];
    if (!run.segment && !run.transfer) continue;
    auto const by =
        run.segment ? index_of(*run.segment) : std::ssize(p_.segments) + (run.transfer - replay.transfers().data());
    for (std::int32_t const index : met_by[by]) {
      auto& interval = classes_[index].intervals[run.microbatch];
      if (interval.first < 0) interval.first = static_cast<std::int64_t>(r);
      interval.last = static_cast<std::int64_t>(r);
    }
  }
}

namespace {

using Classes = std::vector<Lifetimes::SlotClass const*>;

/// Bytes over the ops of one run, relative to what is alive when it starts: {highest level within the run, level after
/// it}. `born` and `dying` are the slots that begin or end here.
std::pair<std::int64_t, std::int64_t> walk_run(StepProgram const& p, Lifetimes const& life, Segment const& segment,
                                               Classes const& born, Classes const& dying) {
  std::vector<std::int64_t> change(segment.ops.size() + 1, 0);
  auto const bytes = [&](TensorId id) { return p.tensors[id].bytes(); };
  for (TensorId const id : life.touched(segment)) {
    if (life.residence(id) != Residence::temporary) continue;
    auto const [first, last] = life.op_range(segment, id);
    change[first] += bytes(id);
    change[last + 1] -= bytes(id);
  }
  for (auto const* slots : born)
    for (TensorId const id : slots->tensors) change[life.op_range(segment, id).first] += bytes(id);
  for (auto const* slots : dying)
    for (TensorId const id : slots->tensors) change[life.op_range(segment, id).second + 1] -= bytes(id);
  std::int64_t level = 0, peak = 0;
  for (std::int64_t const c : change) {
    level += c;
    peak = std::max(peak, level);
  }
  return {peak, level};
}

/// [run] change of the bytes of given inputs that a later run reads again: a block of the microbatch from its first
/// reader to its last.
std::vector<std::int64_t> given_input_changes(StepProgram const& p, Replay const& replay, Lifetimes const& life) {
  auto const& runs = replay.runs();
  std::vector<std::int64_t> change(runs.size(), 0);
  std::map<std::pair<TensorId, std::int32_t>, std::pair<std::size_t, std::size_t>> spans;
  std::unordered_map<Segment const*, std::vector<TensorId>> given;
  for (Segment const* segment : life.used_segments())
    for (TensorId const id : life.touched(*segment)) {
      Tensor const& t = p.tensors[id];
      if (t.role == TensorRole::buffer && t.per_microbatch && t.dtype == p.precision) given[segment].push_back(id);
    }
  for (std::size_t r = 0; r < runs.size() && !given.empty(); ++r)
    if (auto const found = given.find(runs[r].segment); found != given.end())
      for (TensorId const id : found->second)
        spans.try_emplace({id, runs[r].microbatch}, r, r).first->second.second = r;
  for (auto const& [key, span] : spans) {
    std::int64_t const bytes = p.tensors[key.first].bytes();
    change[span.first] += bytes;
    change[span.second] -= bytes;
  }
  return change;
}

}  // namespace

LivenessWalk walk_liveness(StepProgram const& p, Replay const& replay, Lifetimes const& life) {
  auto const& runs = replay.runs();
  std::vector<Classes> born(runs.size()), dying(runs.size());
  LivenessWalk result;
  result.microbatches_in_flight.assign(p.chunks.size(), 0);
  for (Lifetimes::SlotClass const& slots : life.slot_classes())
    for (RunInterval const& i : slots.intervals) {
      if (i.first < 0 || slots.freed_by_action) continue;
      born[i.first].push_back(&slots);
      dying[i.last].push_back(&slots);
    }
  std::map<std::tuple<Segment const*, Classes, Classes>, std::pair<std::int64_t, std::int64_t>> known;
  std::vector<std::int32_t> in_flight(p.chunks.size(), 0);
  std::vector<std::int64_t> const inputs = given_input_changes(p, replay, life);
  std::int64_t live = 0, given = 0;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    Run const& run = runs[r];
    std::int32_t const chunk = run.chunk;
    if (run.kind == ActionKind::gather || run.kind == ActionKind::free)
      for (Bucket const& b : p.buckets)
        if (b.chunk == run.chunk && b.weight_shard != no_tensor)
          live += (run.kind == ActionKind::gather ? 1 : -1) * p.tensors[b.weights].bytes();
    if (run.segment) {
      auto const [it, fresh] = known.try_emplace({run.segment, born[r], dying[r]});
      if (fresh) it->second = walk_run(p, life, *run.segment, born[r], dying[r]);
      if (live + it->second.first > result.peak_bytes) result.peak_bytes = live + it->second.first, result.peak_run = r;
      live += it->second.second;
    } else {
      for (auto const* slots : born[r]) live += slots->bytes;
      if (live > result.peak_bytes) result.peak_bytes = live, result.peak_run = r;
      for (auto const* slots : dying[r]) live -= slots->bytes;
    }
    given += inputs[r];
    result.kept_bytes = std::max(result.kept_bytes, live + given);
    if (run.kind == ActionKind::forward)
      result.microbatches_in_flight[chunk] = std::max(result.microbatches_in_flight[chunk], ++in_flight[chunk]);
    if (run.kind == ActionKind::backward || run.kind == ActionKind::backward_weight) --in_flight[chunk];
  }
  VALIDATE(live == 0, fmt::format("liveness walk ends with {} bytes alive", live));
  return result;
}

}  // namespace shardbench
