#include "harness/planner/layer_costs.hpp"

#include <algorithm>

#include "harness/planner/worker_threads.hpp"
#include "harness/program/lower.hpp"
#include "harness/program/memory_plan.hpp"
#include "harness/simulate/stack_program.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

/// One program, timed and sized.
struct Probe {
  double forward_ms = 0, gradients_ms = 0, step_ms = 0, weight_ms = 0, embedding_ms = 0;
  double activation_bytes = 0, parameters = 0, expert_parameters = 0;
  double parameter_bytes = 0, gradient_bytes = 0, optimizer_bytes = 0;
};

bool has_both_kinds(ModelConfig const& m) {
  if (!m.moe) return false;
  for (std::int64_t layer = 0; layer < m.layers; ++layer)
    if (!m.is_moe_layer(layer)) return true;
  return false;
}

/// Leaves the model so many layers, all of one kind.
void keep_layers(ModelConfig& m, std::int64_t layers, bool experts) {
  m.layers = layers;
  if (!m.moe) return;
  if (!experts) {
    m.moe.reset();
    return;
  }
  m.moe->first_dense_layers = 0, m.moe->layer_step = 1;
  m.moe->dense_layers.clear();
}

/// The least experiment with a key's layer costs: one stage, one microbatch, only the ranks that the key names.
Experiment probe_experiment(PlanRequest const& request, LayerKey const& k, std::int64_t layers, bool experts,
                            Scope scope) {
  Experiment e = request.base;
  keep_layers(e.model, layers, experts);
  e.scope = scope;
  ParallelConfig& p = e.parallel;
  p = {};
  p.tp = k.tp, p.cp = k.cp, p.etp = experts ? k.etp : 1, p.ep = experts ? k.ep : 1;
  std::int64_t const inner = p.tp * p.cp, expert_ranks = p.etp * p.ep;
  p.dp = expert_ranks > inner ? (expert_ranks + inner - 1) / inner : 1;
  p.sequence_parallel = k.sequence_parallel, p.recompute = k.recompute;
  p.tp_overlap = k.tp_overlap ? "chunked" : "none";
  e.micro_batch = k.micro_batch;
  e.global_batch = k.micro_batch * p.dp;
  e.layers = 0, e.ranks = p.ranks();
  resolve(e);
  return e;
}

double weight_gradient_ms(StepProgram const& program, CostModel const& model) {
  double sum = 0;
  for (Segment const& segment : program.segments) {
    if (segment.kind != ActionKind::backward) continue;
    for (Op const& op : segment.ops)
      if (op.part == BackwardPart::weight && op.stream == StreamId::compute)
        sum += model.compute_ms(program, op, false);
  }
  return sum;
}

/// Time of the ops before the first layer: the embedding, which shares what surrounds the layers with the head.
double time_before_layers(StepProgram const& program, CostModel const& model) {
  double ms = 0;
  for (Op const& op : program.segment_of(ActionKind::forward, 0)->ops) {
    if (op.layer >= 0) break;
    ms += op.stream == StreamId::compute ? model.compute_ms(program, op, false) : model.collective_ms(program, op);
  }
  return ms;
}

/// Plays forward, backward and optimizer of the one microbatch.
void play(Probe& r, std::vector<StepProgram> const& programs, CostModel const& model) {
  Replay const replay(programs[0]);
  std::vector<Run> const& runs = replay.runs();
  auto const forward = std::ranges::find(runs, ActionKind::forward, &Run::kind);
  SimulationResult const result = simulate(programs, model, {.record_spans = false, .record_runs = true});
  std::vector<double> const& ends = result.stages[0].run_end_ms;
  r.forward_ms = ends[static_cast<std::size_t>(forward - runs.begin())];
  r.gradients_ms = ends[replay.optimizer_begin() - 1];
  r.step_ms = result.step_ms;
}

Probe probe(PlanRequest const& request, CostModel const& model, LayerKey const& key, std::int64_t layers, bool experts,
            Scope scope) {
  std::vector<StepProgram> programs;
  programs.push_back(with_stack(lower(probe_experiment(request, key, layers, experts, scope), 0), model.stack()));
  StepProgram& program = programs[0];
  Probe r;
  if (scope == Scope::model) r.embedding_ms = time_before_layers(program, model);
  r.weight_ms = weight_gradient_ms(program, model);
  MemoryPlan const plan = plan_sizes(program, Replay(program));
  r.activation_bytes = static_cast<double>(plan.activation_peak_bytes);
  r.parameter_bytes = static_cast<double>(plan.parameter_bytes);
  r.gradient_bytes = static_cast<double>(plan.gradient_bytes);
  r.optimizer_bytes = static_cast<double>(plan.optimizer_bytes);
  for (Parameter const& p : program.parameters)
    (p.expert ? r.expert_parameters : r.parameters) += static_cast<double>(p.elements());
  // Data-parallel reductions belong to the whole step, not to a layer.
  for (Segment& segment : program.segments)
    std::erase_if(segment.ops, [](Op const& op) { return op.stream == StreamId::dp; });
  play(r, programs, model);
  return r;
}

PieceCost difference(Probe const& more, Probe const& less) {
  PieceCost c;
  c.forward_ms = more.forward_ms - less.forward_ms;
  c.backward_ms = more.gradients_ms - less.gradients_ms - c.forward_ms;
  c.weight_backward_ms = more.weight_ms - less.weight_ms;
  c.activation_bytes = more.activation_bytes - less.activation_bytes;
  c.parameters = more.parameters - less.parameters;
  c.expert_parameters = more.expert_parameters - less.expert_parameters;
  return c;
}

void split_outside(LayerCosts& costs, PieceCost const& outside, double share, double embedding_parameters) {
  costs.embedding.forward_ms = share * outside.forward_ms;
  costs.head.forward_ms = outside.forward_ms - costs.embedding.forward_ms;
  costs.embedding.backward_ms = share * outside.backward_ms;
  costs.head.backward_ms = outside.backward_ms - costs.embedding.backward_ms;
  costs.head.weight_backward_ms = outside.weight_backward_ms;
  costs.embedding.parameters = embedding_parameters;
  costs.head.parameters = outside.parameters - embedding_parameters;
}

LayerCosts measure_costs(PlanRequest const& request, CostModel const& model, LayerKey const& key) {
  LayerCosts costs;
  ModelConfig const& m = request.base.model;
  std::vector<bool> kinds;
  if (has_both_kinds(m))
    kinds = {false, true};
  else
    kinds = {m.moe.has_value()};
  Probe one;
  for (bool const experts : kinds) {
    one = probe(request, model, key, 1, experts, Scope::layer);
    costs.kinds.push_back(difference(probe(request, model, key, 2, experts, Scope::layer), one));
    costs.working_bytes = std::max(costs.working_bytes, one.activation_bytes - costs.kinds.back().activation_bytes);
  }
  bool const experts = kinds.back();
  Probe const whole = probe(request, model, key, 1, experts, Scope::model);
  PieceCost const outside = difference(whole, one);
  double const table = static_cast<double>(padded_vocab(m.vocab, key.tp) / key.tp * m.hidden) +
                       (m.position == PositionKind::learned ? static_cast<double>(m.max_positions * m.hidden) : 0);
  double const share = outside.forward_ms > 0 ? std::min(1.0, whole.embedding_ms / outside.forward_ms) : 0;
  split_outside(costs, outside, share, std::min(table, outside.parameters));
  costs.head_working_bytes = std::max(0.0, outside.activation_bytes);
  double const elements = whole.parameters + whole.expert_parameters;
  costs.optimizer_ms_per_parameter = (whole.step_ms - whole.gradients_ms) / elements;
  costs.parameter_bytes = whole.parameter_bytes / elements;
  costs.gradient_bytes = whole.gradient_bytes / elements;
  costs.optimizer_bytes = whole.optimizer_bytes / elements;
  double const rows = static_cast<double>(request.base.seq / key.cp * key.micro_batch);
  costs.message_bytes = rows * static_cast<double>(m.hidden) * static_cast<double>(bytes_of(request.base.precision)) /
                        (key.sequence_parallel ? key.tp : 1);
  return costs;
}

}  // namespace

std::vector<std::int64_t> layers_by_kind(ModelConfig const& m, std::int64_t first, std::int64_t count) {
  if (!has_both_kinds(m)) return {count};
  std::vector<std::int64_t> counts(2);
  for (std::int64_t layer = first; layer < first + count; ++layer) ++counts[m.is_moe_layer(layer) ? 1 : 0];
  return counts;
}

namespace {

LayerCosts costs_or_problem(PlanRequest const& request, CostModel const& model, LayerKey const& key) {
  try {
    return measure_costs(request, model, key);
  } catch (IllegalConfig const& refusal) {
    LayerCosts costs;
    costs.problem = refusal.what();
    return costs;
  }
}

}  // namespace

void LayerCostTable::prepare(std::vector<LayerKey> const& keys) {
  std::vector<LayerCosts> found(keys.size());
  // A cost model remembers what it computed, so each thread has its own; the results do not depend on who made them.
  for_each_of(
      keys.size(),
      [&](std::size_t i, CostModel const& model) { found[i] = costs_or_problem(request_, model, keys[i]); }, model_);
  for (std::size_t i = 0; i < keys.size(); ++i) costs_.try_emplace(keys[i], std::move(found[i]));
}

LayerCosts const& LayerCostTable::of(LayerKey const& key) {
  auto const found = costs_.find(key);
  if (found != costs_.end()) return found->second;
  return costs_.emplace(key, costs_or_problem(request_, model_, key)).first->second;
}

}  // namespace shardbench
