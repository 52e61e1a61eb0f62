#include "harness/planner/schedule_walk.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "kernels/core/error.hpp"

namespace shardbench {

std::size_t WalkOrder::size() const {
  std::size_t sum = 0;
  for (auto const& stage : entries) sum += stage.size();
  return sum;
}

WalkOrder walk_order(PipelineSchedule schedule) {
  WalkOrder order;
  order.entries.resize(schedule.order.size());
  for (std::size_t s = 0; s < schedule.order.size(); ++s)
    for (Action const& a : schedule.order[s]) {
      bool const pair = a.kind == ActionKind::pair;
      order.entries[s].push_back({pair ? ActionKind::forward : a.kind, static_cast<std::int16_t>(a.chunk), pair});
      if (pair) order.entries[s].push_back({ActionKind::backward, static_cast<std::int16_t>(a.pair_chunk), false});
    }
  schedule.order = std::vector<std::vector<Action>>();
  order.shape = std::move(schedule);
  return order;
}

void ScheduleWalk::connect(PipelineSchedule const& shape) {
  std::int32_t const chunks = shape.chunks, stages = shape.stages;
  places_.assign(stages * chunks, {});
  channels_.clear();
  // Messages of one kind between two stages pass in order; two directions have channels of their own.
  std::map<std::tuple<std::int32_t, std::int32_t, int>, std::int32_t> known;
  auto const channel = [&](std::int32_t from, std::int32_t to, int lane) {
    auto const [at, fresh] = known.try_emplace({from, to, lane}, static_cast<std::int32_t>(channels_.size()));
    if (fresh) channels_.emplace_back();
    return at->second;
  };
  for (std::int32_t stage = 0; stage < shape.stages; ++stage)
    for (std::int32_t chunk = 0; chunk < shape.chunks; ++chunk) {
      auto const next = shape.next({stage, chunk});
      if (!next || next->stage == stage) continue;
      int const direction = shape.has_two_directions() ? chunk : 0;
      Place& from = places_[stage * chunks + chunk];
      Place& to = places_[next->stage * chunks + next->chunk];
      from.activation_to = to.activation_from = channel(stage, next->stage, direction);
      from.gradient_from = to.gradient_to = channel(next->stage, stage, 2 + direction);
    }
}

std::vector<StageEnd> const& ScheduleWalk::walk(WalkOrder const& order, std::vector<ChunkTimes> const& times,
                                                ShardTraffic traffic, bool receives_ahead) {
  order_ = &order, times_ = &times, traffic_ = traffic, receives_ahead_ = receives_ahead && order.shape.chunks > 1;
  sends_ahead_ = order.shape.sends_ahead();
  connect(order.shape);
  std::size_t const chunks = order.shape.chunks, stages = order.entries.size();
  EXPECT(times.size() == stages * chunks);
  stages_.assign(stages, {});
  ends_.resize(stages);
  for (StageEnd& end : ends_) end.last_at.assign(chunks, 0), end.last_ms.assign(chunks, 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < stages; ++s) moved = advance(s) || moved;
  }
  for (std::size_t s = 0; s < stages; ++s) {
    VALIDATE(stages_[s].at == order.entries[s].size(), "a planned schedule deadlocks");
    ends_[s].compute = stages_[s].free, ends_[s].traffic = stages_[s].traffic;
  }
  return ends_;
}

bool ScheduleWalk::advance(std::size_t index) {
  Stage& stage = stages_[index];
  std::vector<WalkOrder::Entry> const& entries = order_->entries[index];
  std::size_t const chunks = order_->shape.chunks;
  std::size_t const before = stage.at;
  bool const posted = stage.posted;
  while (stage.at < entries.size()) {
    WalkOrder::Entry const& entry = entries[stage.at];
    if (entry.opens_pair && !stage.posted_next) post_second(stage, index * chunks + entries[stage.at + 1].chunk);
    if (!pass(stage, index * chunks + entry.chunk, entry)) break;
    if (entry.kind == ActionKind::backward || entry.kind == ActionKind::backward_weight) {
      auto const chunk = entry.chunk;
      ends_[index].last_at[chunk] = stage.before, ends_[index].last_ms[chunk] = stage.free - stage.before;
    }
    ++stage.at;
  }
  return stage.at != before || stage.posted != posted;
}

double ScheduleWalk::arrival(Stage& stage, std::int32_t number, bool forward, double ms) {
  if (number == nowhere) return 0;
  Channel& channel = channels_[number];
  if (!stage.posted && stage.posted_next && !forward)
    stage.awaited = stage.awaited_next, stage.posted_next = false;
  else if (!stage.posted)
    stage.awaited = channel.post(channel.received, receives_ahead_ ? stage.before : stage.free, ms, false);
  stage.posted = true;
  return stage.awaited < channel.done.size() ? channel.done[stage.awaited] : -1;
}

void ScheduleWalk::post_second(Stage& stage, std::size_t place) {
  if (places_[place].gradient_from == nowhere) return;
  Channel& channel = channels_[places_[place].gradient_from];
  stage.awaited_next =
      channel.post(channel.received, receives_ahead_ ? stage.before : stage.free, (*times_)[place].gradient_in, false);
  stage.posted_next = true;
}

bool ScheduleWalk::pass(Stage& stage, std::size_t index, WalkOrder::Entry const& entry) {
  Place& place = places_[index];
  ChunkTimes const& times = (*times_)[index];
  bool const forward = entry.kind == ActionKind::forward, weight = entry.kind == ActionKind::backward_weight;
  double start = stage.free;
  if (!weight) {
    double const there = arrival(stage, forward ? place.activation_from : place.gradient_from, forward,
                                 forward ? times.activation_in : times.gradient_in);
    if (there < 0) return false;
    start = std::max(start, there - (forward ? 0 : times.lead));
  }
  // What a pass puts out takes the place of what it put out before, unless each microbatch has a buffer.
  std::int32_t const out = weight ? nowhere : forward ? place.activation_to : place.gradient_to;
  std::size_t const sent = place.sent[forward ? 0 : 1];
  double leaves = 0;
  if (out != nowhere && sent > 0 && !sends_ahead_) {
    Channel const& channel = channels_[out];
    if (channel.done.size() < sent) return false;
    leaves = channel.done[sent - 1];
  }
  double const own_end = end_of_pass(stage, index, entry.kind, start),
               end = std::max(own_end, leaves + times.output_share * (own_end - start));
  stage.before = start, stage.free = end, stage.posted = false;
  if (out == nowhere) return true;
  std::int32_t const chunks = order_->shape.chunks;
  auto const target = forward ? order_->shape.next({static_cast<std::int32_t>(index / chunks), entry.chunk})
                              : order_->shape.previous({static_cast<std::int32_t>(index / chunks), entry.chunk});
  ChunkTimes const& theirs = (*times_)[target->stage * chunks + target->chunk];
  Channel& channel = channels_[out];
  double const ms = forward ? theirs.activation_in : theirs.gradient_in;
  place.sent[forward ? 0 : 1] = channel.post(channel.sent, end, ms, false) + 1;
  return true;
}

double ScheduleWalk::end_of_pass(Stage& stage, std::size_t index, ActionKind kind, double start) {
  Place& place = places_[index];
  ChunkTimes const& t = (*times_)[index];
  bool const forward = kind == ActionKind::forward,
             makes_weights = kind == ActionKind::backward || kind == ActionKind::backward_weight;
  double const ms = forward                               ? t.forward
                    : kind == ActionKind::backward        ? t.backward()
                    : kind == ActionKind::backward_weight ? t.backward_weight
                                                          : t.backward_input;
  double const part = ms / t.pieces;
  switch (traffic_) {
    case ShardTraffic::none:
      return start + ms;
    case ShardTraffic::gather_first: {
      if (!forward || place.gathered) return start + ms;
      place.gathered = true;
      stage.traffic += t.gather;
      return std::max(start + ms, stage.traffic + part);
    }
    case ShardTraffic::reduce_every: {
      bool const gathers = forward && !place.gathered;
      if (gathers) {
        place.gathered = true;
        stage.traffic += t.gather;
        return std::max(start + ms, t.gather > 0 ? stage.traffic + part : 0);
      }
      if (!makes_weights) return start + ms;
      // Each part is added to its shard behind the next one, so compute runs no more than a part ahead.
      double const first = std::max(stage.traffic, start + ms / t.parts), each = t.reduce / t.parts;
      double const end = std::max(start + ms, first + (t.parts - 1) * each);
      stage.traffic = end + each;
      return end;
    }
    case ShardTraffic::gather_always: {
      double const reduce = makes_weights ? t.reduce / t.pieces : 0,
                   gather = kind == ActionKind::backward_weight ? 0 : t.gather / t.pieces;
      // The first gather may run beside the last piece of the pass before.
      double const begin = gather > 0 ? std::max(start, std::max(stage.traffic, start - part) + gather) : start;
      double const end = begin + (t.pieces - 1) * std::max(part, gather + reduce) + part;
      stage.traffic = end - part + reduce;
      return end;
    }
  }
  return start + ms;
}

}  // namespace shardbench
