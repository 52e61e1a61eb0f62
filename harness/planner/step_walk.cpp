#include "harness/planner/step_walk.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace shardbench {
namespace {

constexpr std::size_t most_entries = 4'000'000;  // of orders kept: 32 MB

}  // namespace

double StepWalk::step_ms(Candidate const& c, LayerCosts const& layer) {
  WalkOrder const& order = order_of(c, request_.base.global_batch / (static_cast<std::int64_t>(c.dp) * c.micro_batch));
  chunks_ = static_cast<std::size_t>(order.shape.chunks);
  fill_times(c, layer, order);
  fill_messages(c, layer, order);
  fill_traffic(c);
  ShardTraffic const traffic = c.zero_stage == 3 && c.dp * c.cp > 1   ? ShardTraffic::gather_always
                               : c.zero_stage == 2 && c.dp * c.cp > 1 ? ShardTraffic::reduce_every
                               : gathers_first(c)                     ? ShardTraffic::gather_first
                                                                      : ShardTraffic::none;
  std::vector<StageEnd> const& ends = walk_.walk(order, times_, traffic, model_.stack().receives_ahead);
  double last = 0;
  for (std::size_t s = 0; s < ends.size(); ++s) last = std::max(last, end_of(c, layer, s, ends[s]));
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

void StepWalk::fill_times(Candidate const& c, LayerCosts const& layer, WalkOrder const& order) {
  ModelConfig const& m = request_.base.model;
  PipelineSchedule const& shape = order.shape;
  std::size_t const places = static_cast<std::size_t>(shape.stages) * chunks_;
  std::vector<std::int64_t> const layers = split_layers(m.layers, shape.pieces());
  std::vector<std::int64_t> first(layers.size());
  for (std::size_t i = 1; i < layers.size(); ++i) first[i] = first[i - 1] + layers[i - 1];
  times_.assign(places, {});
  held_.assign(places, {});
  for (std::size_t at = 0; at < places; ++at) {
    auto const piece = static_cast<std::size_t>(
        shape.piece_of({static_cast<std::int32_t>(at / chunks_), static_cast<std::int32_t>(at % chunks_)}));
    ChunkTimes& t = times_[at];
    Held& held = held_[at];
    double const adding = 1 - 1 / static_cast<double>(shape.microbatches);
    auto const add = [&](PieceCost const& cost, double count) {
      t.forward += count * cost.forward_ms;
      t.backward_input += count * (cost.backward_ms - cost.weight_backward_ms);
      t.backward_weight += count * (cost.weight_backward_ms + adding * cost.adding_ms);
      held.dense += count * cost.parameters, held.experts += count * cost.expert_parameters;
      held.buckets += count * cost.buckets, held.expert_buckets += count * cost.expert_buckets;
    };
    std::vector<std::int64_t> const counts = layers_by_kind(m, first[piece], layers[piece]);
    for (std::size_t k = 0; k < counts.size(); ++k) add(layer.kinds[k], static_cast<double>(counts[k]));
    bool const embeds = piece == 0, heads = piece + 1 == layers.size();
    if (embeds) add(layer.outside.embedding, 1);
    if (heads) add(layer.outside.head, 1);
    if (m.tied_embeddings && c.pp > 1 && embeds != heads && (embeds || heads)) {
      held.tied = layer.outside.embedding.parameters;
      if (heads) held.dense += held.tied;
    }
    // Layers are computed anew one by one, the last one without anything from the next stage.
    if (c.recompute == Recompute::full && !heads && layers[piece] > 0)
      t.lead = layer.kinds[counts.size() > 1 && m.is_moe_layer(first[piece] + layers[piece] - 1) ? 1 : 0].forward_ms;
    t.pieces = std::max(1.0, static_cast<double>(layers[piece]));
  }
}

void StepWalk::fill_messages(Candidate const& c, LayerCosts const& layer, WalkOrder const& order) {
  std::int64_t const stride = static_cast<std::int64_t>(c.tp) * c.cp * c.dp;
  for (std::size_t at = 0; at < times_.size(); ++at) {
    ChunkPlace const here{static_cast<std::int32_t>(at / chunks_), static_cast<std::int32_t>(at % chunks_)};
    auto const message = [&](std::optional<ChunkPlace> from) {
      if (!from || from->stage == here.stage) return 0.0;
      return network_.message_ms(from->stage * stride, here.stage * stride, c.tp, layer.message_bytes);
    };
    times_[at].activation_in = message(order.shape.previous(here));
    times_[at].gradient_in = message(order.shape.next(here));
  }
}

bool StepWalk::gathers_first(Candidate const& c) const {
  return model_.stack().gather_with_forward && c.zero_stage > 0 && c.zero_stage < 3;
}

void StepWalk::fill_traffic(Candidate const& c) {
  auto const weight_bytes = static_cast<double>(bytes_of(request_.base.precision));
  reductions_.resize(times_.size()), gathers_.resize(times_.size());
  for (std::size_t at = 0; at < times_.size(); ++at) {
    if (at > 0 && held_[at].dense == held_[at - 1].dense && held_[at].experts == held_[at - 1].experts) {
      reductions_[at] = reductions_[at - 1], gathers_[at] = gathers_[at - 1];
    } else {
      reductions_[at] = collective(c, c.zero_stage == 0 ? OpKind::all_reduce : OpKind::reduce_scatter, held_[at],
                                   sent_gradient_bytes(request_.base, model_.stack()));
      gathers_[at] = c.zero_stage == 0 ? Chain{} : collective(c, OpKind::all_gather, held_[at], weight_bytes);
    }
    times_[at].reduce = reductions_[at].ms, times_[at].parts = reductions_[at].parts;
    times_[at].gather = c.zero_stage == 3 || gathers_first(c) ? gathers_[at].ms : 0;
  }
}

StepWalk::Chain StepWalk::collective(Candidate const& c, OpKind kind, Held const& held, double bytes_each) {
  std::int64_t const n = static_cast<std::int64_t>(c.dp) * c.cp, cut = static_cast<std::int64_t>(c.ep) * c.etp;
  Chain chain{0, 0};
  auto const add = [&](double parameters, double buckets, std::int64_t stride, std::int64_t ranks) {
    if (ranks < 2 || parameters <= 0) return;
    double const parts = std::max(1.0, std::round(buckets));
    chain.ms += network_.collective_ms(kind, parameters * bytes_each, stride, ranks, parts);
    chain.parts += parts;
  };
  add(held.dense, held.buckets, c.tp, n);
  add(held.experts, held.expert_buckets, cut, n * c.tp / cut);
  chain.parts = std::max(chain.parts, 1.0);
  return chain;
}

double StepWalk::copies_ms(Candidate const& c, std::size_t stage) {
  if (c.pp == 1 || c.schedule == ScheduleKind::zb_v) return 0;
  std::int64_t const stride = static_cast<std::int64_t>(c.tp) * c.cp * c.dp;
  double const shards = c.zero_stage > 0 ? static_cast<double>(c.dp) * c.cp : 1;
  bool const mirrors = c.schedule == ScheduleKind::dualpipe;
  double parameters = 0, parts = mirrors ? 0 : 1;
  for (std::size_t k = 0; k < chunks_; ++k) {
    Held const& held = held_[stage * chunks_ + k];
    parameters += mirrors ? held.dense + held.experts : held.tied;
    if (mirrors) parts += held.buckets + held.expert_buckets;
  }
  if (parameters <= 0) return 0;
  auto const s = static_cast<std::int64_t>(stage);
  std::int64_t const away = mirrors ? std::abs(c.pp - 1 - 2 * s) : c.pp - 1;
  return network_.collective_ms(OpKind::all_reduce,
                                parameters / shards * sent_gradient_bytes(request_.base, model_.stack()), away * stride,
                                2, std::max(1.0, std::round(parts)));
}

std::vector<StepWalk::Reduced> StepWalk::reduce(std::size_t stage, StageEnd const& passes, double& traffic) const {
  std::vector<Reduced> reduced(chunks_);
  std::vector<std::size_t> turns(chunks_);
  std::iota(turns.begin(), turns.end(), std::size_t{0});
  std::ranges::stable_sort(turns, {}, [&](std::size_t k) { return passes.last_at[k]; });
  bool const overlaps = model_.stack().dp_overlap;
  for (std::size_t const k : turns) {
    Chain const& chain = reductions_[stage * chunks_ + k];
    if (chain.ms == 0) continue;
    double const from = overlaps ? passes.last_at[k] : passes.compute, ms = overlaps ? passes.last_ms[k] : 0;
    // Parts are ready at an even pace and go one after the other: the first or the last is what holds them up.
    double const each = chain.ms / chain.parts, first = std::max(traffic, from + ms / chain.parts) + each;
    traffic = std::max(first + (chain.parts - 1) * each, from + ms + each);
    reduced[k] = {first, chain.parts > 1 ? (traffic - first) / (chain.parts - 1) : 0, chain.parts};
  }
  return reduced;
}

double StepWalk::end_of(Candidate const& c, LayerCosts const& layer, std::size_t stage, StageEnd const& passes) {
  double const n = static_cast<double>(c.dp) * c.cp, shards = c.zero_stage > 0 ? n : 1,
               expert_shards = c.zero_stage > 0 ? n * c.tp / (static_cast<double>(c.ep) * c.etp) : 1;
  double compute = passes.compute, traffic = passes.traffic;
  std::vector<Reduced> reduced(chunks_, {passes.traffic, 0, 1});  // cut with every pass, until the last one's end
  if (c.zero_stage < 2) reduced = reduce(stage, passes, traffic);
  bool const mirrors = c.schedule == ScheduleKind::dualpipe;
  // The tied table is the last one to be updated on the first stage, the first one on the last.
  if (double const copies = copies_ms(c, stage); copies > 0) {
    traffic = std::max(traffic, stage == 0 || mirrors ? compute : passes.last_at[chunks_ - 1]) + copies;
    if (stage > 0 || mirrors) compute = std::max(compute, traffic);
  }
  bool const gathers = c.zero_stage > 0 && c.zero_stage < 3 && !gathers_first(c);
  for (std::size_t k = 0; k < chunks_; ++k) {
    Held const& held = held_[stage * chunks_ + k];
    double const parts = std::max(1.0, reduced[k].parts);
    double const update =
        (held.dense / shards + held.experts / expert_shards) * layer.outside.optimizer_ms_per_parameter / parts;
    double const gather = gathers ? gathers_[stage * chunks_ + k].ms / parts : 0;
    for (double j = 0; j < parts; ++j) {
      compute = std::max(compute, reduced[k].first + j * reduced[k].each) + update;
      if (gather > 0) traffic = std::max(traffic, compute) + gather;
    }
  }
  return std::max(compute, traffic);
}

}  // namespace shardbench
