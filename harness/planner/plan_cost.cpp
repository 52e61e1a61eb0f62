#include "harness/planner/plan_cost.hpp"

#include <algorithm>
#include <array>

#include "harness/simulate/stack_program.hpp"

namespace shardbench {
namespace {

/// A stage's passes: where it holds a stage of each direction, half of the microbatches go through each.
PieceCost stage_cost(ChunkCosts const& costs, ModelPart const& stage) {
  PieceCost cost = costs.of(stage);
  if (costs.rules().mirrored())
    for (double* const each :
         {&cost.forward_ms, &cost.backward_ms, &cost.weight_backward_ms, &cost.adding_ms, &cost.activation_bytes})
      *each *= 0.5;
  return cost;
}

/// Groups of several ranks that a rank is in, one a degree.
std::int64_t communicators(Candidate const& c) {
  return std::ranges::count_if(std::array{c.tp, c.cp, c.dp, c.pp, c.ep}, [](std::int32_t ranks) { return ranks > 1; });
}

PipelineSize size_of(ChunkCosts const& costs) {
  Candidate const& c = costs.cut();
  return {.stages = static_cast<double>(c.pp),
          .chunks = static_cast<double>(costs.rules().pieces_a_stage(c.vpp)),
          .microbatches = costs.microbatches()};
}

}  // namespace

PlanCoster::PlanCoster(PlanRequest const& request, CostModel const& model)
    : request_(request), model_(model), table_(request, model), network_(model), walk_(request, model, network_) {}

double PlanCoster::pass_ms() const {
  ModelConfig const& m = request_.base.model;
  PieceCost const whole = sum_of(*layer_, {.layers = layers_by_kind(m, 0, m.layers), .embedding = true, .head = true});
  return whole.forward_ms + whole.backward_ms;
}

PlanCost const* PlanCoster::cost(Candidate const& c) {
  LayerKey const key = layer_key(c);
  if (!layer_ || key != key_) {
    key_ = key;
    layer_ = &table_.of(key);
  }
  if (!layer_->problem.empty()) return nullptr;
  ChunkCosts const costs(request_, model_, network_, c, *layer_);
  std::vector<ModelPart> const& held = stages(c);
  add_up(costs, held);
  cost_ = {};
  add_pipeline(costs);
  add_reductions(costs);
  cost_.step_ms = cost_.compute_ms + cost_.bubble_ms + cost_.messages_ms + cost_.reduction_ms + cost_.optimizer_ms +
                  model_.stack().step_ms;
  cost_.memory_bytes = memory(costs, held);
  return &cost_;
}

double PlanCoster::played_ms(Candidate const& c) {
  return walk_.step_ms(c, table_.of(layer_key(c))) + model_.stack().step_ms;
}

std::vector<ModelPart> const& PlanCoster::stages(Candidate const& c) {
  ScheduleRules const& rules = rules_of(c.schedule);
  std::int64_t const chunks = rules.chunks_a_stage(c.vpp);
  std::vector<ModelPart>& found = stages_[{rules.layout, c.pp, chunks}];
  if (!found.empty()) return found;
  PipelineSchedule const shape{
      .kind = c.schedule, .stages = c.pp, .chunks = static_cast<std::int32_t>(chunks), .order = {}};
  std::vector<ModelPart> const parts = model_parts(request_.base, shape);
  found.resize(c.pp);
  for (std::size_t at = 0; at < parts.size(); ++at) {
    ModelPart& stage = found[at / chunks];
    stage.layers.resize(parts[at].layers.size());
    for (std::size_t kind = 0; kind < stage.layers.size(); ++kind) stage.layers[kind] += parts[at].layers[kind];
    stage.embedding |= parts[at].embedding, stage.head |= parts[at].head;
  }
  return found;
}

void PlanCoster::add_up(ChunkCosts const& costs, std::vector<ModelPart> const& stages) {
  totals_.groups.clear();
  totals_.forward_ms = totals_.input_ms = totals_.backward_ms = totals_.slowest_ms = 0;
  for (std::size_t s = 0; s < stages.size();) {
    std::size_t same = s + 1;
    while (same < stages.size() && stages[same] == stages[s]) ++same;
    StageGroup g;
    g.cost = stage_cost(costs, stages[s]);
    double const adding = g.cost.adding_ms * (1 - 1 / costs.microbatches());
    g.cost.backward_ms += adding, g.cost.weight_backward_ms += adding;
    g.count = static_cast<double>(same - s), g.before = static_cast<double>(same - 1);
    double const input = g.cost.backward_ms - g.cost.weight_backward_ms;
    g.forward_before = totals_.forward_ms + (g.count - 1) * g.cost.forward_ms;
    g.input_before = totals_.input_ms + (g.count - 1) * input;
    g.backward_before = totals_.backward_ms + (g.count - 1) * g.cost.backward_ms;
    totals_.forward_ms += g.count * g.cost.forward_ms;
    totals_.input_ms += g.count * input;
    totals_.backward_ms += g.count * g.cost.backward_ms;
    totals_.slowest_ms = std::max(totals_.slowest_ms, g.cost.forward_ms + g.cost.backward_ms);
    totals_.groups.push_back(g);
    s = same;
  }
}

/// The longest of the paths that pass through all the work of one stage of a group: its microbatches one after the
/// other between the way to it and the way back, or behind its first gradient, which comes from the stages after it. A
/// message is part of the stage that receives it, which does not get on meanwhile.
double PlanCoster::longest_path(ChunkCosts const& costs, StageGroup const& g, double message) const {
  StageTotals const& t = totals_;
  Candidate const& c = costs.cut();
  // A gradient may come in while the layer before it is computed anew: half of the messages take what that leaves.
  double const lead = c.recompute == Recompute::full ? costs.layer().kinds.front().forward_ms : 0;
  StagePath path;
  path.size = size_of(costs);
  path.own = {.forward = g.cost.forward_ms,
              .backward_input = g.cost.backward_ms - g.cost.weight_backward_ms,
              .backward_weight = g.cost.weight_backward_ms,
              .transfer = (message + std::max(0.0, message - lead)) / 2};
  path.before = g.before, path.after = path.size.stages - 1 - g.before;
  bool const ahead = costs.stack().receives_ahead && costs.rules().chunks_a_stage(c.vpp) > 1;
  double const ends = (path.before == 0 ? 1 : 0) + (path.after == 0 ? 1 : 0);
  path.received = ahead ? 0 : path.own.transfer * (2 * path.size.chunks - ends);
  path.work =
      path.size.microbatches * (path.own.forward + path.own.backward_input + path.own.backward_weight + path.received);
  path.forward_all = t.forward_ms;
  path.forward_before = g.forward_before, path.input_before = g.input_before, path.backward_before = g.backward_before;
  path.forward_after = t.forward_ms - g.forward_before - path.own.forward;
  path.input_after = t.input_ms - g.input_before - path.own.backward_input;
  path.backward_after = t.backward_ms - g.backward_before - path.own.backward_input - path.own.backward_weight;
  return costs.rules().longest_path(path);
}

void PlanCoster::add_pipeline(ChunkCosts const& costs) {
  double const message = costs.cut().pp == 1 ? 0 : costs.message_ms(0, 1);
  double longest = 0, bare = 0;
  for (StageGroup const& g : totals_.groups) {
    longest = std::max(longest, longest_path(costs, g, message));
    bare = std::max(bare, message == 0 ? longest : longest_path(costs, g, 0));
  }
  cost_.compute_ms = costs.microbatches() * totals_.slowest_ms;
  cost_.bubble_ms = bare - cost_.compute_ms;
  cost_.messages_ms = longest - bare;
}

void PlanCoster::add_reductions(ChunkCosts const& costs) {
  Candidate const& c = costs.cut();
  PieceCost const& held = totals_.groups.front().cost;  // the first stage is the last to end
  double const update = costs.update_ms(held), m = costs.microbatches();
  auto const [whole, parts] = costs.reductions(held);
  double const gather = costs.gathers(held).ms;
  double const part = parts > 0 ? 1 / parts : 1, forward = held.forward_ms, backward = held.backward_ms;
  double ends = 0;  // after the last pass
  if (c.zero_stage < 2) {
    // The last part has no backward left to hide behind, the last chunk no more than its own.
    double const chunks = c.vpp, passes = 1 + (c.pp - 1) * (1 - 1 / chunks);
    ends = costs.stack().dp_overlap
               ? std::max({whole * part, (whole * (1 - part / chunks) - backward) / chunks, whole - passes * backward})
               : whole;
  } else if (c.zero_stage == 2) {
    ends = whole * part + m * std::max(0.0, whole * (1 - part) - backward);
  } else {
    ends = m * (std::max(0.0, gather - forward) + std::max(0.0, gather + whole - backward));
  }
  double const gathered = c.zero_stage == 3 || costs.stack().gather_with_forward ? 0 : gather;
  // Each part is updated when it is reduced, and gathered when it is updated and the reductions are over.
  cost_.optimizer_ms = update;
  cost_.reduction_ms = std::max({ends + costs.copies_ms(0, held) + gathered, update, ends + update * part}) +
                       std::max(0.0, gathered * part) - update;
  cost_.reduction_ms = std::max(cost_.reduction_ms, 0.0);
}

double PlanCoster::memory(ChunkCosts const& costs, std::vector<ModelPart> const& stages) const {
  PipelineSize const size = size_of(costs);
  double most = 0, states = 0;
  PieceCost cost;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (s == 0 || stages[s] != stages[s - 1]) cost = stage_cost(costs, stages[s]), states = costs.state_bytes(cost);
    double const activations = costs.rules().in_flight(size, static_cast<double>(s)) * cost.activation_bytes +
                               layer_->working_bytes + (stages[s].head ? layer_->head_working_bytes : 0);
    double const beside = framework_bytes(model_.stack(), communicators(costs.cut()), activations).total();
    most = std::max(most, states + activations + beside);
  }
  return most;
}

}  // namespace shardbench
