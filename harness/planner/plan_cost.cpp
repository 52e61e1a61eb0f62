#include "harness/planner/plan_cost.hpp"

#include <algorithm>
#include <cmath>

namespace shardbench {
namespace {

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
    : request_(request), model_(model), table_(request, model), network_(model), walk_(request, model, network_) {}

double PlanCoster::pass_ms() const {
  std::vector<std::int64_t> const counts = layers_by_kind(request_.base.model, 0, request_.base.model.layers);
  PieceCost const whole = stage_cost({.layers = counts, .embedding = true, .head = true});
  return whole.forward_ms + whole.backward_ms;
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
  add_up(pieces, microbatches);
  cost_ = {};
  add_pipeline(c, microbatches);
  add_reductions(c, microbatches);
  cost_.step_ms = cost_.compute_ms + cost_.bubble_ms + cost_.messages_ms + cost_.reduction_ms + cost_.optimizer_ms +
                  model_.stack().step_ms;
  cost_.memory_bytes = memory(c, pieces, microbatches);
  return &cost_;
}

double PlanCoster::played_ms(Candidate const& c) {
  return walk_.step_ms(c, table_.of(layer_key(c))) + model_.stack().step_ms;
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
    sum.adding_ms += times * piece.adding_ms;
    sum.activation_bytes += times * piece.activation_bytes;
    sum.parameters += times * piece.parameters;
    sum.expert_parameters += times * piece.expert_parameters;
    sum.buckets += times * piece.buckets, sum.expert_buckets += times * piece.expert_buckets;
  };
  for (std::size_t k = 0; k < stage.layers.size(); ++k) add(layer_->kinds[k], static_cast<double>(stage.layers[k]));
  if (stage.embedding) add(layer_->outside.embedding, 1);
  if (stage.head) {
    add(layer_->outside.head, 1);
    // A tied head off the first stage holds a copy of the embedding.
    if (request_.base.model.tied_embeddings && !stage.embedding) sum.parameters += layer_->outside.embedding.parameters;
  }
  for (double* const each :
       {&sum.forward_ms, &sum.backward_ms, &sum.weight_backward_ms, &sum.adding_ms, &sum.activation_bytes})
    *each *= stage.passed;
  return sum;
}

void PlanCoster::add_up(std::vector<Stage> const& pieces, double m) {
  totals_.groups.clear();
  totals_.forward_ms = totals_.input_ms = totals_.backward_ms = totals_.slowest_ms = 0;
  for (std::size_t s = 0; s < pieces.size();) {
    std::size_t same = s + 1;
    while (same < pieces.size() && pieces[same] == pieces[s]) ++same;
    StageGroup g;
    g.cost = stage_cost(pieces[s]);
    double const adding = g.cost.adding_ms * (1 - 1 / m);
    g.cost.backward_ms += adding, g.cost.weight_backward_ms += adding;
    g.count = static_cast<double>(same - s), g.before = static_cast<double>(same - 1);
    double const input = g.cost.backward_ms - g.cost.weight_backward_ms;
    g.forward_before = totals_.forward_ms + (g.count - 1) * g.cost.forward_ms;
    g.input_before = totals_.input_ms + (g.count - 1) * input;
    g.backward_before = totals_.backward_ms + (g.count - 1) * g.cost.backward_ms;
    totals_.forward_ms += g.count * g.cost.forward_ms;
    totals_.input_ms += g.count * input;
    totals_.backward_ms += g.count * g.cost.backward_ms;
    if (double const ms = g.cost.forward_ms + g.cost.backward_ms; ms > totals_.slowest_ms)
      totals_.slowest_ms = ms, totals_.slowest = totals_.groups.size();
    totals_.groups.push_back(g);
    s = same;
  }
}

/// The longest of the paths that pass through all the work of one stage of a group: its microbatches one after the
/// other between the way to it and the way back, or behind its first gradient, which comes from the stages after it. A
/// message is part of the stage that receives it, which does not get on meanwhile.
double PlanCoster::longest_path(Candidate const& c, StageGroup const& g, double m, double message) const {
  StageTotals const& t = totals_;
  // A gradient may come in while the layer before it is computed anew: half of the messages take what that leaves.
  double const lead = c.recompute == Recompute::full ? layer_->kinds.front().forward_ms : 0;
  double const x = (message + std::max(0.0, message - lead)) / 2;
  double const p = c.pp, after = p - 1 - g.before;
  double const forward = g.cost.forward_ms, weight = g.cost.weight_backward_ms, input = g.cost.backward_ms - weight;
  bool const ahead = model_.stack().receives_ahead && pieces_per_stage(c) + (c.schedule == ScheduleKind::dualpipe) > 1;
  double const ends = (g.before == 0 ? 1 : 0) + (after == 0 ? 1 : 0);
  double const pieces = pieces_per_stage(c), received = ahead ? 0 : x * (2 * pieces - ends);
  double const all = m * (forward + input + weight + received);
  double const forward_after = t.forward_ms - g.forward_before - forward,
               input_after = t.input_ms - g.input_before - input,
               backward_after = t.backward_ms - g.backward_before - input - weight;
  switch (c.schedule) {
    case ScheduleKind::interleaved:
      return all + (g.forward_before + g.backward_before) / pieces + 2 * g.before * x;
    case ScheduleKind::zb_h1: {
      double const taken = std::min(m, p) - 1;
      return all + g.forward_before + g.before * x +
             std::max({0.0, forward_after + input_after + 2 * after * x - taken * (forward + x),
                       g.input_before + g.before * x - m * weight});
    }
    case ScheduleKind::zb_v: {
      // The first gradient comes when the first microbatch has passed all pieces and come back to the stage.
      double const first = t.forward_ms + 2 * (p - 1) * x + g.input_before / 2 + g.before * x;
      return all + std::max(g.forward_before / 2 + g.before * x, first - std::min(m, p) * (forward + 2 * received / 4));
    }
    case ScheduleKind::dualpipe: {
      double const away = p / 2 - 1;
      return all + away * std::max(0.0, forward + input - weight + x);
    }
    default: {
      double const taken = c.schedule == ScheduleKind::gpipe ? m - 1 : std::min(m - 1, after);
      return all + g.forward_before + g.backward_before + 2 * g.before * x +
             std::max(0.0, forward_after + backward_after + 2 * after * x - taken * (forward + x));
    }
  }
}

void PlanCoster::add_pipeline(Candidate const& c, double m) {
  double const message =
      c.pp == 1 ? 0
                : network_.message_ms(0, static_cast<std::int64_t>(c.tp) * c.cp * c.dp, c.tp, layer_->message_bytes);
  double longest = 0, bare = 0;
  for (StageGroup const& g : totals_.groups) {
    longest = std::max(longest, longest_path(c, g, m, message));
    bare = std::max(bare, message == 0 ? longest : longest_path(c, g, m, 0));
  }
  cost_.compute_ms = m * totals_.slowest_ms;
  cost_.bubble_ms = bare - cost_.compute_ms;
  cost_.messages_ms = longest - bare;
}

std::pair<double, double> PlanCoster::over_copies(Candidate const& c, OpKind kind, StageGroup const& g,
                                                  double bytes_each) {
  std::int64_t const n = static_cast<std::int64_t>(c.dp) * c.cp, cut = static_cast<std::int64_t>(c.ep) * c.etp;
  std::pair<double, double> sum{0, 0};
  auto const add = [&](double parameters, double buckets, std::int64_t stride, std::int64_t ranks) {
    if (ranks <= 1 || parameters == 0) return;
    double const parts = std::max(1.0, std::round(buckets));
    sum.first += network_.collective_ms(kind, parameters * bytes_each, stride, ranks, parts);
    sum.second += parts;
  };
  add(g.cost.parameters, g.cost.buckets, c.tp, n);
  // Experts are copied over fewer ranks, those of other experts between them.
  add(g.cost.expert_parameters, g.cost.expert_buckets, cut, n * c.tp / cut);
  return sum;
}

/// Sums of what two stages hold copies of: a tied table, all of DualPipe.
double PlanCoster::copies_ms(Candidate const& c, StageGroup const& g) {
  if (c.pp == 1 || c.schedule == ScheduleKind::zb_v) return 0;
  bool const all = c.schedule == ScheduleKind::dualpipe;
  if (!all && !request_.base.model.tied_embeddings) return 0;
  double const shards = c.zero_stage > 0 ? static_cast<double>(c.dp) * c.cp : 1;
  double const parameters = all ? g.cost.parameters + g.cost.expert_parameters : layer_->outside.embedding.parameters;
  double const bytes = parameters / shards * sent_gradient_bytes(request_.base, model_.stack());
  std::int64_t const stride = static_cast<std::int64_t>(c.tp) * c.cp * c.dp;
  return network_.collective_ms(OpKind::all_reduce, bytes, all ? stride : (c.pp - 1) * stride, 2, 1);
}

void PlanCoster::add_reductions(Candidate const& c, double m) {
  StageGroup const& g = totals_.groups.front();  // the first stage is the last to end
  double const n = static_cast<double>(c.dp) * c.cp, shards = c.zero_stage > 0 ? n : 1;
  double const expert_shards = c.zero_stage > 0 ? n * c.tp / (static_cast<double>(c.ep) * c.etp) : 1;
  double const update = (g.cost.parameters / shards + g.cost.expert_parameters / expert_shards) *
                        layer_->outside.optimizer_ms_per_parameter;
  SoftwareStack const& stack = model_.stack();
  double const weight_bytes = static_cast<double>(bytes_of(request_.base.precision));
  auto const [whole, parts] = over_copies(c, c.zero_stage == 0 ? OpKind::all_reduce : OpKind::reduce_scatter, g,
                                          sent_gradient_bytes(request_.base, model_.stack()));
  double const gather = c.zero_stage == 0 ? 0 : over_copies(c, OpKind::all_gather, g, weight_bytes).first;
  double const part = parts > 0 ? 1 / parts : 1, forward = g.cost.forward_ms, backward = g.cost.backward_ms;
  double ends = 0;  // after the last pass
  if (c.zero_stage < 2) {
    // The last part has no backward left to hide behind, the last chunk no more than its own.
    double const chunks = c.schedule == ScheduleKind::interleaved ? c.vpp : 1,
                 passes = 1 + (c.pp - 1) * (1 - 1 / chunks);
    ends = stack.dp_overlap
               ? std::max({whole * part, (whole * (1 - part / chunks) - backward) / chunks, whole - passes * backward})
               : whole;
  } else if (c.zero_stage == 2) {
    ends = whole * part + m * std::max(0.0, whole * (1 - part) - backward);
  } else {
    ends = m * (std::max(0.0, gather - forward) + std::max(0.0, gather + whole - backward));
  }
  double const gathered = c.zero_stage == 3 || stack.gather_with_forward ? 0 : gather;
  // Each part is updated when it is reduced, and gathered when it is updated and the reductions are over.
  double const copies = copies_ms(c, g);
  cost_.optimizer_ms = update;
  cost_.reduction_ms = std::max({ends + copies + gathered, update, ends + update * part}) +
                       (gathered > 0 ? std::max(0.0, (gathered * part)) : 0) - update;
  cost_.reduction_ms = std::max(cost_.reduction_ms, 0.0);
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

}  // namespace shardbench
