#include "harness/planner/layer_costs.hpp"

#include <algorithm>
#include <set>
#include <type_traits>

#include "harness/planner/worker_threads.hpp"
#include "harness/program/analysis/memory_plan.hpp"
#include "harness/program/passes/lower.hpp"
#include "harness/simulate/stack_program.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

/// One program, timed and sized.
struct Probe {
  PieceCost cost;
  double embedding_ms = 0, optimizer_ms = 0;
  MemoryPlan memory;
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
  Cut& p = e.cut;
  p = {};
  p.tp = k.tp, p.cp = k.cp, p.etp = experts ? k.etp : 1, p.ep = experts ? k.ep : 1;
  std::int64_t const inner = p.tp * p.cp, expert_ranks = p.etp * p.ep;
  p.dp = expert_ranks > inner ? (expert_ranks + inner - 1) / inner : 1;
  p.sequence_parallel = k.sequence_parallel, p.recompute = k.recompute;
  if (k.recompute != Recompute::full) p.recompute_modules = request.base.cut.recompute_modules;
  e.pipeline_layout.clear();
  p.tp_overlap = k.tp_overlap ? TpOverlap::chunked : TpOverlap::none;
  e.micro_batch = k.micro_batch;
  e.global_batch = k.micro_batch * p.dp;
  e.layers = 0, e.ranks = p.ranks();
  resolve(e);
  return e;
}

void time_weight_gradients(PieceCost& cost, StepProgram const& program, CostModel const& model) {
  for (Segment const& segment : program.segments) {
    if (segment.kind != ActionKind::backward) continue;
    for (Op const& op : segment.ops)
      if (op.stream == StreamId::compute) {
        double const ms = op.part == BackwardPart::weight || op.accumulate ? model.compute_ms(program, op, false) : 0;
        if (op.part == BackwardPart::weight) cost.weight_backward_ms += ms;
        if (op.accumulate) cost.adding_ms += model.compute_ms(program, op, true) - ms;
      }
  }
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
  double const gradients_ms = ends[replay.optimizer_begin() - 1];
  r.cost.forward_ms = ends[forward - runs.begin()];
  r.cost.backward_ms = gradients_ms - r.cost.forward_ms;
  r.optimizer_ms = result.step_ms - gradients_ms;
}

/// Buckets that the gradients of a program of one data-parallel rank would fill beside others': whole parameters go
/// into one until it is full; a bucket that is not is a part of one.
double buckets_of(StepProgram const& program, Experiment const& e, bool experts) {
  double const full = 1e6 * e.bucket_mb / static_cast<double>(bytes_of(e.gradient_dtype));
  double buckets = 0, open = 0;
  for (auto p = program.parameters.rbegin(); p != program.parameters.rend(); ++p) {
    if (p->expert != experts) continue;
    open += static_cast<double>(p->elements());
    if (open >= full) ++buckets, open = 0;
  }
  return buckets + open / full;
}

Probe probe(PlanRequest const& request, CostModel const& model, LayerKey const& key, std::int64_t layers, bool experts,
            Scope scope) {
  std::vector<StepProgram> programs;
  programs.push_back(with_stack(lower(probe_experiment(request, key, layers, experts, scope), 0), model.stack()));
  StepProgram& program = programs[0];
  Probe r;
  if (scope == Scope::model) r.embedding_ms = time_before_layers(program, model);
  PieceCost& cost = r.cost;
  time_weight_gradients(cost, program, model);
  r.memory = plan_sizes(program, Replay(program));
  cost.activation_bytes = static_cast<double>(r.memory.activation_peak_bytes);
  for (Parameter const& p : program.parameters)
    (p.expert ? cost.expert_parameters : cost.parameters) += static_cast<double>(p.elements());
  cost.buckets = buckets_of(program, request.base, false),
  cost.expert_buckets = buckets_of(program, request.base, true);
  // Data-parallel reductions belong to the whole step, not to a layer.
  for (Segment& segment : program.segments)
    std::erase_if(segment.ops, [](Op const& op) { return op.stream == StreamId::dp; });
  play(r, programs, model);
  return r;
}

PieceCost difference(PieceCost more, PieceCost const& less) {
  more.add(less, -1);
  return more;
}

void split_outside(OutsideCosts& costs, PieceCost const& outside, double share, double embedding_parameters) {
  costs.embedding.forward_ms = share * outside.forward_ms;
  costs.head.forward_ms = outside.forward_ms - costs.embedding.forward_ms;
  costs.embedding.backward_ms = share * outside.backward_ms;
  costs.head.backward_ms = outside.backward_ms - costs.embedding.backward_ms;
  costs.head.weight_backward_ms = outside.weight_backward_ms;
  costs.head.adding_ms = outside.adding_ms;
  costs.embedding.parameters = embedding_parameters;
  costs.head.parameters = outside.parameters - embedding_parameters;
  double const whole = std::max(outside.parameters, 1.0);
  costs.embedding.buckets = outside.buckets * embedding_parameters / whole;
  costs.head.buckets = outside.buckets - costs.embedding.buckets;
}

/// The kinds of layers of a model, by whether they have experts.
std::vector<bool> kinds_of(ModelConfig const& m) {
  if (has_both_kinds(m)) return {false, true};
  return {m.moe.has_value()};
}

/// What decides the costs of one kind of layer: the cut of experts is nothing to a dense one.
LayerKey key_of_kind(LayerKey key, bool experts) {
  if (!experts) key.ep = key.etp = 1;
  return key;
}

/// What decides the costs around the layers: prediction layers behind the last are layers themselves.
LayerKey key_of_outside(Experiment const& base, LayerKey key) {
  if (base.mtp > 0) return key;
  key.ep = key.etp = 1;
  key.recompute = Recompute::none;
  return key;
}

bool outside_has_experts(Experiment const& base) {
  std::vector<bool> const kinds = kinds_of(base.model);
  return base.mtp > 0 ? kinds.back() : kinds.front();
}

KindCosts measure_kind(PlanRequest const& request, CostModel const& model, LayerKey const& key, bool experts) try {
  KindCosts costs;
  if (request.base.model.yolo) return costs;  // its blocks are unlike: the whole model is what surrounds no layers
  costs.alone = probe(request, model, key, 1, experts, Scope::layer).cost;
  costs.layer = difference(probe(request, model, key, 2, experts, Scope::layer).cost, costs.alone);
  return costs;
} catch (IllegalConfig const& refusal) {
  return {.problem = refusal.what(), .layer = {}, .alone = {}};
}

OutsideCosts measure_outside(PlanRequest const& request, CostModel const& model, LayerKey const& key,
                             KindCosts const& kind) try {
  OutsideCosts costs;
  costs.problem = kind.problem;
  if (!costs.problem.empty()) return costs;
  ModelConfig const& m = request.base.model;
  Probe const whole = probe(request, model, key, 1, outside_has_experts(request.base), Scope::model);
  PieceCost const outside = difference(whole.cost, kind.alone);
  double const table =
      static_cast<double>(padded_vocab(m.vocab, key.tp, request.base.vocab_divisible_by) / key.tp * m.hidden) +
      (m.position == PositionKind::learned ? static_cast<double>(m.max_positions * m.hidden) : 0);
  double const share = outside.forward_ms > 0 ? std::min(1.0, whole.embedding_ms / outside.forward_ms) : 0;
  split_outside(costs, outside, share, std::min(table, outside.parameters));
  costs.working_bytes = whole.cost.activation_bytes - kind.layer.activation_bytes;
  double const elements = whole.cost.parameters + whole.cost.expert_parameters;
  costs.optimizer_ms_per_parameter = whole.optimizer_ms / elements;
  costs.parameter_bytes = static_cast<double>(whole.memory.parameter_bytes) / elements;
  costs.gradient_bytes = static_cast<double>(whole.memory.gradient_bytes) / elements;
  costs.optimizer_bytes = static_cast<double>(whole.memory.optimizer_bytes) / elements;
  return costs;
} catch (IllegalConfig const& refusal) {
  OutsideCosts costs;
  costs.problem = refusal.what();
  return costs;
}

}  // namespace

void PieceCost::add(PieceCost const& piece, double times) {
  forward_ms += times * piece.forward_ms;
  backward_ms += times * piece.backward_ms;
  weight_backward_ms += times * piece.weight_backward_ms;
  adding_ms += times * piece.adding_ms;
  activation_bytes += times * piece.activation_bytes;
  parameters += times * piece.parameters;
  expert_parameters += times * piece.expert_parameters;
  buckets += times * piece.buckets, expert_buckets += times * piece.expert_buckets;
}

std::vector<std::int64_t> layers_by_kind(ModelConfig const& m, std::int64_t first, std::int64_t count) {
  if (!has_both_kinds(m)) return {count};
  std::vector<std::int64_t> counts(2);
  for (std::int64_t layer = first; layer < first + count; ++layer) ++counts[m.is_moe_layer(layer) ? 1 : 0];
  return counts;
}

LayerCosts LayerCostTable::assemble(LayerKey const& key) {
  LayerCosts costs;
  for (bool const experts : kinds_of(request_.base.model)) {
    KindCosts const& one = kind(key, experts);
    if (costs.problem.empty()) costs.problem = one.problem;
    costs.kinds.push_back(one.layer);
    costs.working_bytes = std::max(costs.working_bytes, one.working_bytes());
  }
  if (!costs.problem.empty()) return costs;
  OutsideCosts const& around = outside(key);
  costs.outside = around;
  costs.problem = around.problem;
  costs.head_working_bytes =
      std::max(0.0, around.working_bytes - kind(key, kinds_of(request_.base.model).back()).working_bytes());
  double const rows = static_cast<double>(request_.base.seq / key.cp * key.micro_batch);
  costs.message_bytes = rows * static_cast<double>(request_.base.model.hidden) *
                        static_cast<double>(bytes_of(request_.base.precision)) / (key.sequence_parallel ? key.tp : 1);
  return costs;
}

void LayerCostTable::prepare(std::vector<LayerKey> const& keys) {
  std::set<KindKey> kinds;
  std::set<LayerKey> outsides;
  for (LayerKey const& key : keys) {
    for (bool const experts : kinds_of(request_.base.model)) kinds.insert({key_of_kind(key, experts), experts});
    LayerKey const around = key_of_outside(request_.base, key);
    outsides.insert(around);
    kinds.insert({around, outside_has_experts(request_.base)});
  }
  // A cost model remembers what it computed, so each thread has its own; the results do not depend on who made them.
  auto const fill = [&](auto& table, auto const& wanted, auto&& measure) {
    std::vector<
        std::pair<std::remove_cvref_t<decltype(*wanted.begin())>, std::remove_cvref_t<decltype(table.begin()->second)>>>
        found;
    for (auto const& key : wanted) found.push_back({key, {}});
    for_each_of(
        found.size(), [&](std::size_t i, CostModel const& model) { found[i].second = measure(found[i].first, model); },
        model_);
    for (auto& [key, costs] : found) table.try_emplace(key, std::move(costs));
  };
  fill(kinds_, kinds, [&](KindKey const& key, CostModel const& model) {
    return measure_kind(request_, model, key.first, key.second);
  });
  fill(outsides_, outsides, [&](LayerKey const& key, CostModel const& model) {
    return measure_outside(request_, model, key, kinds_.at({key, outside_has_experts(request_.base)}));
  });
}

KindCosts const& LayerCostTable::kind(LayerKey const& key, bool experts) {
  KindKey const mine{key_of_kind(key, experts), experts};
  auto const [at, fresh] = kinds_.try_emplace(mine);
  if (fresh) at->second = measure_kind(request_, model_, mine.first, experts);
  return at->second;
}

OutsideCosts const& LayerCostTable::outside(LayerKey const& key) {
  LayerKey const mine = key_of_outside(request_.base, key);
  auto const [at, fresh] = outsides_.try_emplace(mine);
  if (fresh) at->second = measure_outside(request_, model_, mine, kind(mine, outside_has_experts(request_.base)));
  return at->second;
}

LayerCosts const& LayerCostTable::of(LayerKey const& key) {
  auto const [at, fresh] = costs_.try_emplace(key);
  if (fresh) at->second = assemble(key);
  return at->second;
}

}  // namespace shardbench
