#include "harness/planner/step_walk.hpp"

#include <algorithm>
#include <numeric>

namespace shardbench {
namespace {

constexpr std::size_t most_entries = 4'000'000;  // of orders kept: 32 MB

}  // namespace

double StepWalk::step_ms(Candidate const& c, LayerCosts const& layer) {
  ChunkCosts const costs(request_, model_, network_, c, layer);
  WalkOrder const& order = order_of(c, static_cast<std::int64_t>(costs.microbatches()));
  chunks_ = order.shape.chunks;
  fill_times(costs, order);
  fill_messages(costs, order);
  fill_traffic(costs);
  ShardTraffic const traffic = c.zero_stage == 3 && c.dp * c.cp > 1   ? ShardTraffic::gather_always
                               : c.zero_stage == 2 && c.dp * c.cp > 1 ? ShardTraffic::reduce_every
                               : costs.gathers_first()                ? ShardTraffic::gather_first
                                                                      : ShardTraffic::none;
  std::vector<StageEnd> const& ends = walk_.walk(order, times_, traffic, model_.stack().receives_ahead);
  double last = 0;
  for (std::size_t s = 0; s < ends.size(); ++s) last = std::max(last, end_of(costs, s, ends[s]));
  return last;
}

WalkOrder const& StepWalk::order_of(Candidate const& c, std::int64_t microbatches) {
  std::tuple const key{c.schedule, c.pp, c.vpp, microbatches};
  auto const found = orders_.find(key);
  if (found != orders_.end()) return found->second;
  WalkOrder order = walk_order(make_schedule(c.schedule, c.pp, c.vpp, microbatches));
  if (order_entries_ + order.size() > most_entries) orders_.clear(), order_entries_ = 0;
  order_entries_ += order.size();
  return orders_[key] = std::move(order);
}

void StepWalk::fill_times(ChunkCosts const& costs, WalkOrder const& order) {
  std::vector<ModelPart> const parts = model_parts(request_.base, order.shape);
  double const adding = 1 - 1 / costs.microbatches();
  times_.assign(parts.size(), {});
  held_.clear();
  for (std::size_t at = 0; at < parts.size(); ++at) {
    ModelPart const& part = parts[at];
    PieceCost const& cost = held_.emplace_back(costs.of(part));
    ChunkTimes& t = times_[at];
    t.forward = cost.forward_ms;
    t.backward_input = cost.backward_ms - cost.weight_backward_ms;
    t.backward_weight = cost.weight_backward_ms + adding * cost.adding_ms;
    std::int64_t const layers = std::accumulate(part.layers.begin(), part.layers.end(), std::int64_t{0});
    // Layers are computed anew one by one, the last one without anything from the next stage.
    if (costs.cut().recompute == Recompute::full && !part.head && layers > 0)
      t.lead = costs.layer().kinds[part.last_kind].forward_ms;
    t.pieces = std::max(1.0, static_cast<double>(layers));
  }
}

void StepWalk::fill_messages(ChunkCosts const& costs, WalkOrder const& order) {
  for (std::size_t at = 0; at < times_.size(); ++at) {
    ChunkPlace const here{static_cast<std::int32_t>(at / chunks_), static_cast<std::int32_t>(at % chunks_)};
    auto const message = [&](std::optional<ChunkPlace> from) {
      return from && from->stage != here.stage ? costs.message_ms(from->stage, here.stage) : 0;
    };
    times_[at].activation_in = message(order.shape.previous(here));
    times_[at].gradient_in = message(order.shape.next(here));
  }
}

void StepWalk::fill_traffic(ChunkCosts const& costs) {
  reductions_.resize(times_.size()), gathers_.resize(times_.size());
  bool const gathers_beside = costs.cut().zero_stage == 3 || costs.gathers_first();
  for (std::size_t at = 0; at < times_.size(); ++at) {
    PieceCost const& held = held_[at];
    if (at > 0 && held.parameters == held_[at - 1].parameters &&
        held.expert_parameters == held_[at - 1].expert_parameters) {
      reductions_[at] = reductions_[at - 1], gathers_[at] = gathers_[at - 1];
    } else {
      reductions_[at] = costs.reductions(held), gathers_[at] = costs.gathers(held);
    }
    times_[at].reduce = reductions_[at].ms, times_[at].parts = std::max(1.0, reductions_[at].parts);
    times_[at].gather = gathers_beside ? gathers_[at].ms : 0;
  }
}

std::vector<StepWalk::Reduced> StepWalk::reduce(std::size_t stage, StageEnd const& passes, double& traffic) const {
  std::vector<Reduced> reduced(chunks_);
  std::vector<std::size_t> turns(chunks_);
  std::iota(turns.begin(), turns.end(), std::size_t{0});
  std::ranges::stable_sort(turns, {}, [&](std::size_t k) { return passes.last_at[k]; });
  bool const overlaps = model_.stack().dp_overlap;
  for (std::size_t const k : turns) {
    CollectiveChain const& chain = reductions_[stage * chunks_ + k];
    if (chain.ms == 0) continue;
    double const from = overlaps ? passes.last_at[k] : passes.compute, ms = overlaps ? passes.last_ms[k] : 0;
    // Parts are ready at an even pace and go one after the other: the first or the last is what holds them up.
    double const each = chain.ms / chain.parts, first = std::max(traffic, from + ms / chain.parts) + each;
    traffic = std::max(first + (chain.parts - 1) * each, from + ms + each);
    reduced[k] = {first, chain.parts > 1 ? (traffic - first) / (chain.parts - 1) : 0, chain.parts};
  }
  return reduced;
}

double StepWalk::end_of(ChunkCosts const& costs, std::size_t stage, StageEnd const& passes) {
  Candidate const& c = costs.cut();
  double compute = passes.compute, traffic = passes.traffic;
  std::vector<Reduced> reduced(chunks_, {passes.traffic, 0, 1});  // cut with every pass, until the last one's end
  if (c.zero_stage < 2) reduced = reduce(stage, passes, traffic);
  bool const mirrors = costs.rules().mirrored();
  PieceCost whole;
  for (std::size_t k = 0; k < chunks_; ++k) whole.add(held_[stage * chunks_ + k], 1);
  // The tied table is the last one to be updated on the first stage, the first one on the last.
  if (double const copies = costs.copies_ms(static_cast<std::int64_t>(stage), whole); copies > 0) {
    traffic = std::max(traffic, stage == 0 || mirrors ? compute : passes.last_at[chunks_ - 1]) + copies;
    if (stage > 0 || mirrors) compute = std::max(compute, traffic);
  }
  bool const gathers = c.zero_stage > 0 && c.zero_stage < 3 && !costs.gathers_first();
  for (std::size_t k = 0; k < chunks_; ++k) {
    std::size_t const at = stage * chunks_ + k;
    double const parts = std::max(1.0, reduced[k].parts);
    double const update = costs.update_ms(held_[at]) / parts;
    double const gather = gathers ? gathers_[at].ms / parts : 0;
    for (double j = 0; j < parts; ++j) {
      compute = std::max(compute, reduced[k].first + j * reduced[k].each) + update;
      if (gather > 0) traffic = std::max(traffic, compute) + gather;
    }
  }
  return std::max(compute, traffic);
}

}  // namespace shardbench
