#include "harness/planner/plan_cost.hpp"

#include <algorithm>
#include <cmath>

namespace shardbench {
namespace {

constexpr double ms_per_us = 1e-3;

std::int32_t pieces_per_stage(Candidate const& c) { return c.schedule == ScheduleKind::zb_v ? 2 : c.vpp; }

/// Microbatches whose activations a stage holds at once, counted in whole stages.
double in_flight(Candidate const& c, std::size_t stage, double microbatches) {
  double const p = c.pp, behind = p - static_cast<double>(stage);
  switch (c.schedule) {
    case ScheduleKind::gpipe:
      return microbatches;
    case ScheduleKind::interleaved:
      return std::min(microbatches, (2 * (behind - 1) + (c.vpp - 1) * p + 1) / c.vpp);
    case ScheduleKind::zb_v:
      return std::min(microbatches, p);
    case ScheduleKind::dualpipe:
      return std::min(microbatches, p + 1);
    default:
      return std::min(microbatches, behind);
  }
}

}  // namespace

PlanCoster::PlanCoster(PlanRequest const& request, CostModel const& model)
    : request_(request), model_(model), table_(request, model) {}

void PlanCoster::prepare() {
  std::vector<LayerKey> keys;
  for_each_candidate(request_, [&](Candidate const& c) {
    if (LayerKey const key = layer_key(c); keys.empty() || keys.back() != key) keys.push_back(key);
  });
  table_.prepare(keys);
}

PlanCost const* PlanCoster::cost(Candidate const& c) {
  LayerKey const key = layer_key(c);
  if (!layer_ || key != key_) {
    key_ = key;
    layer_ = &table_.of(key);
  }
  if (!layer_->problem.empty()) return nullptr;
  auto const microbatches = static_cast<double>(request_.base.global_batch / (c.dp * c.micro_batch));
  std::vector<Stage> const& pieces = stages(c.pp, pieces_per_stage(c), c.schedule);
  StageTotals const t = totals(pieces);
  cost_ = {};
  add_pipeline(c, t, microbatches);
  add_reductions(c, t, microbatches);
  cost_.step_ms = cost_.compute_ms + cost_.bubble_ms + cost_.messages_ms + cost_.reduction_ms + cost_.optimizer_ms +
                  model_.stack().step_ms;
  cost_.memory_bytes = memory(c, pieces, microbatches);
  return &cost_;
}

std::vector<PlanCoster::Stage> const& PlanCoster::stages(std::int32_t pp, std::int32_t per_stage, ScheduleKind kind) {
  bool const folded = kind == ScheduleKind::zb_v, both_ways = kind == ScheduleKind::dualpipe;
  std::vector<Stage>& found = stages_[{pp, per_stage, folded, both_ways}];
  if (!found.empty()) return found;
  ModelConfig const& m = request_.base.model;
  std::vector<std::int64_t> const layers = split_layers(m.layers, static_cast<std::int64_t>(pp) * per_stage);
  found.resize(static_cast<std::size_t>(pp));
  std::int64_t first = 0;
  for (std::size_t piece = 0; piece < layers.size(); ++piece) {
    std::size_t const p = static_cast<std::size_t>(pp), round = piece / p;
    std::vector<std::int64_t> const counts = layers_by_kind(m, first, layers[piece]);
    auto const put = [&](std::size_t where) {
      Stage& stage = found[where];
      stage.layers.resize(counts.size());
      for (std::size_t k = 0; k < counts.size(); ++k) stage.layers[k] += counts[k];
      stage.embedding |= piece == 0;
      stage.head |= piece + 1 == layers.size();
      if (both_ways) stage.passed = 0.5;
    };
    std::size_t const mirrored = p - 1 - piece % p;
    put(folded && round % 2 == 1 ? mirrored : piece % p);
    if (both_ways) put(mirrored);  // a rank holds a stage of each direction, for half of the microbatches
    first += layers[piece];
  }
  return found;
}

PieceCost PlanCoster::stage_cost(Stage const& stage) const {
  PieceCost sum;
  auto const add = [&](PieceCost const& piece, double times) {
    sum.forward_ms += times * piece.forward_ms;
    sum.backward_ms += times * piece.backward_ms;
    sum.weight_backward_ms += times * piece.weight_backward_ms;
    sum.activation_bytes += times * piece.activation_bytes;
    sum.parameters += times * piece.parameters;
    sum.expert_parameters += times * piece.expert_parameters;
  };
  for (std::size_t k = 0; k < stage.layers.size(); ++k) add(layer_->kinds[k], static_cast<double>(stage.layers[k]));
  if (stage.embedding) add(layer_->outside.embedding, 1);
  if (stage.head) {
    add(layer_->outside.head, 1);
    // A tied head off the first stage holds a copy of the embedding.
    if (request_.base.model.tied_embeddings && !stage.embedding) sum.parameters += layer_->outside.embedding.parameters;
  }
  for (double* const each : {&sum.forward_ms, &sum.backward_ms, &sum.weight_backward_ms, &sum.activation_bytes})
    *each *= stage.passed;
  return sum;
}

PlanCoster::StageTotals PlanCoster::totals(std::vector<Stage> const& pieces) const {
  StageTotals t;
  for (std::size_t s = 0; s < pieces.size();) {
    std::size_t same = s + 1;
    while (same < pieces.size() && pieces[same] == pieces[s]) ++same;
    PieceCost const c = stage_cost(pieces[s]);
    double const ms = c.forward_ms + c.backward_ms;
    t.sum_ms += static_cast<double>(same - s) * ms;
    if (ms > t.slowest_ms) {
      t.slowest_ms = ms;
      t.slowest_forward_ms = c.forward_ms, t.slowest_backward_ms = c.backward_ms;
      t.slowest_weight_ms = c.weight_backward_ms;
    }
    t.most_parameters = std::max(t.most_parameters, c.parameters);
    t.most_expert_parameters = std::max(t.most_expert_parameters, c.expert_parameters);
    s = same;
  }
  return t;
}

void PlanCoster::add_pipeline(Candidate const& c, StageTotals const& t, double m) {
  double const p = c.pp, others = t.sum_ms - t.slowest_ms;
  double const message =
      c.pp == 1 ? 0 : message_ms(static_cast<std::int64_t>(c.tp) * c.cp * c.dp, c.tp, layer_->message_bytes);
  cost_.compute_ms = m * t.slowest_ms;
  double const zero_bubble =
      (p - 1) * std::max(0.0, t.slowest_forward_ms + t.slowest_backward_ms - 2 * t.slowest_weight_ms);
  switch (c.schedule) {
    case ScheduleKind::interleaved:
      cost_.bubble_ms = others / c.vpp;
      // Every chunk border is on the path of its microbatch, and the order leaves no pause to hide it in; where
      // receives are posted ahead, one of both directions hides behind the pass of the other.
      cost_.messages_ms = (model_.stack().receives_ahead ? 1 : 2) * m * c.vpp * message;
      return;
    case ScheduleKind::zb_h1:
      cost_.bubble_ms = std::min(others, zero_bubble);
      cost_.messages_ms = 2 * (p - 1) * message;
      return;
    case ScheduleKind::zb_v:
      cost_.bubble_ms = std::min(others, zero_bubble) / 2;
      cost_.messages_ms = 2 * (p - 1) * message;
      return;
    case ScheduleKind::dualpipe:
      cost_.bubble_ms =
          std::max(0.0, (p / 2 - 1) * (t.slowest_forward_ms + 2 * t.slowest_backward_ms - 3 * t.slowest_weight_ms));
      cost_.messages_ms = 2 * (p - 1) * message;
      return;
    default:
      cost_.bubble_ms = others;
      // k stages with k microbatches in flight turn round in k t + 2 (k - 1) x.
      cost_.messages_ms = c.pp == 1 ? 0 : 2 * (p - 1) * message + std::max(0.0, m - p) * 2 * message * (p - 1) / p;
  }
}

void PlanCoster::add_reductions(Candidate const& c, StageTotals const& t, double m) {
  std::int64_t const n = static_cast<std::int64_t>(c.dp) * c.cp;
  double const shards = c.zero_stage > 0 ? static_cast<double>(n) : 1;
  double const expert_ranks = static_cast<double>(n * c.tp) / (c.ep * c.etp);
  double const mine = t.most_parameters / shards + t.most_expert_parameters / (c.zero_stage > 0 ? expert_ranks : 1);
  cost_.optimizer_ms = mine * layer_->outside.optimizer_ms_per_parameter;
  double const bytes_each = static_cast<double>(bytes_of(request_.base.precision));
  // Experts are copied over fewer ranks, those of other experts between them.
  cost_.reduction_ms = reduction_ms(c, t, m, t.most_parameters, bytes_each, c.tp, n) +
                       reduction_ms(c, t, m, t.most_expert_parameters, bytes_each,
                                    static_cast<std::int64_t>(c.ep) * c.etp, std::llround(expert_ranks));
}

double PlanCoster::reduction_ms(Candidate const& c, StageTotals const& t, double m, double parameters,
                                double weight_bytes, std::int64_t stride, std::int64_t ranks) {
  if (ranks <= 1 || parameters == 0) return 0;
  SoftwareStack const& stack = model_.stack();
  bool const full_width = request_.base.gradient_dtype == Dtype::f32;  // which a stack may still send in fewer bytes
  double const gradients =
      parameters * (full_width ? stack.gradient_bytes : static_cast<double>(bytes_of(request_.base.gradient_dtype)));
  double const weights = parameters * weight_bytes;
  auto const parts = static_cast<std::int64_t>(std::max(1.0, std::ceil(gradients / (1e6 * request_.base.bucket_mb))));
  // Interleaved, each chunk but the last has the passes of pp microbatches of the next one to hide behind, too.
  double const chunks = c.schedule == ScheduleKind::interleaved ? c.vpp : 1, passes = 1 + (c.pp - 1) * (1 - 1 / chunks);
  // The last bucket has no backward left to hide behind, the last chunk no more than its own.
  auto const exposed = [&](double whole, bool hidden, double behind) {
    return hidden ? std::max({whole / static_cast<double>(parts), (whole - behind) / chunks, whole - passes * behind})
                  : whole;
  };
  if (c.zero_stage == 0)
    return exposed(collective_ms(OpKind::all_reduce, gradients, stride, ranks, parts), stack.dp_overlap,
                   t.slowest_backward_ms);
  double const scatter = collective_ms(OpKind::reduce_scatter, gradients, stride, ranks, parts);
  double const gather = collective_ms(OpKind::all_gather, weights, stride, ranks, parts);
  if (c.zero_stage < 3) {
    // From ZeRO 2 on every microbatch's gradient is cut.
    bool const each = c.zero_stage == 2;
    return (each ? m : 1) * exposed(scatter, each || stack.dp_overlap, t.slowest_backward_ms) +
           exposed(gather, stack.gather_with_forward, t.slowest_forward_ms);
  }
  return m * (exposed(gather, true, t.slowest_forward_ms) + exposed(gather + scatter, true, t.slowest_backward_ms));
}

double PlanCoster::memory(Candidate const& c, std::vector<Stage> const& pieces, double m) const {
  double const n = static_cast<double>(c.dp) * c.cp, edp = n * c.tp / (static_cast<double>(c.ep) * c.etp);
  auto const states = [&](double parameters, double ranks) {
    return parameters * (layer_->outside.parameter_bytes / (c.zero_stage >= 3 ? ranks : 1) +
                         layer_->outside.gradient_bytes / (c.zero_stage >= 2 ? ranks : 1) +
                         layer_->outside.optimizer_bytes / (c.zero_stage >= 1 ? ranks : 1));
  };
  double most = 0;
  for (std::size_t s = 0; s < pieces.size(); ++s) {
    PieceCost const cost = stage_cost(pieces[s]);
    double const bytes = states(cost.parameters, n) + states(cost.expert_parameters, edp) +
                         in_flight(c, s, m) * cost.activation_bytes + layer_->working_bytes +
                         (pieces[s].head ? layer_->head_working_bytes : 0);
    most = std::max(most, bytes);
  }
  return most + model_.stack().reserved_gb * 1e9;
}

double PlanCoster::message_ms(std::int64_t stride, std::int64_t tp, double bytes) {
  auto const [at, fresh] = messages_.try_emplace({stride, tp, bytes});
  if (!fresh) return at->second;
  std::vector<std::int64_t> neighbours(static_cast<std::size_t>(tp));
  for (std::size_t i = 0; i < neighbours.size(); ++i) neighbours[i] = static_cast<std::int64_t>(i);
  return at->second = model_.message_ms(0, stride, bytes, neighbours);
}

double PlanCoster::collective_ms(OpKind kind, double bytes, std::int64_t stride, std::int64_t ranks,
                                 std::int64_t parts) {
  auto const [at, fresh] = collectives_.try_emplace({static_cast<int>(kind), bytes, stride, ranks});
  if (!fresh) return at->second;
  std::vector<std::int64_t> members(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < members.size(); ++i) members[i] = static_cast<std::int64_t>(i) * stride;
  double const part = bytes / static_cast<double>(parts);
  return at->second = ms_per_us * static_cast<double>(parts) * model_.network_time(kind, part, members).total_us;
}

}  // namespace shardbench
