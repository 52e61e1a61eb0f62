#include "harness/planner/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr double worth_saying = 1e-3;

double layer_bytes(LayerCosts const& costs, PieceCost const& piece) {
  return (piece.parameters + piece.expert_parameters) *
             (costs.outside.parameter_bytes + costs.outside.gradient_bytes + costs.outside.optimizer_bytes) +
         piece.activation_bytes + costs.working_bytes;
}

/// The least degree of a list with which a kind of layer fits; 0 without one.
std::int64_t least_degree(LayerCostTable& table, std::int32_t LayerKey::*axis, std::vector<std::int64_t> const& degrees,
                          std::size_t kind, double allowed, double& bytes) {
  for (std::int64_t const degree : degrees) {
    LayerKey key;
    key.*axis = static_cast<std::int32_t>(degree);
    LayerCosts const& costs = table.of(key);
    if (!costs.problem.empty()) continue;
    bytes = layer_bytes(costs, costs.kinds.at(kind));
    if (bytes <= allowed) return degree;
  }
  return 0;
}

/// Keeps the values that save memory, where the demands left them.
PlanAxes frugal(PlanRequest const& request) {
  PlanAxes axes = request.axes;
  auto const keep = [](auto& values, auto value) {
    if (std::ranges::find(values, value) != values.end()) values = {value};
  };
  std::ranges::sort(axes.micro_batch);
  std::int64_t const batch = request.base.global_batch;
  auto const least =
      std::ranges::find_if(axes.micro_batch, [&](std::int32_t b) { return batch / b <= most_microbatches; });
  if (least != axes.micro_batch.end()) axes.micro_batch = {*least};
  if (!axes.zero_stage.empty()) {
    std::int8_t const most = std::ranges::max(axes.zero_stage);
    std::erase_if(axes.zero_stage, [&](std::int8_t zero) { return zero != 0 && zero != most; });
  }
  keep(axes.recompute, Recompute::full);
  keep(axes.tp_overlap, false);
  keep(axes.schedule, plain_schedule);
  if (axes.schedule == std::vector{plain_schedule}) keep(axes.vpp, 1);
  return axes;
}

}  // namespace

std::vector<StepPart> step_parts(Prediction const& p) {
  Breakdown const& b = p.breakdown;
  std::vector<StepPart> parts;
  parts.push_back({"compute", b.compute_ms - p.optimizer_ms});
  parts.push_back({"optimizer", p.optimizer_ms});
  for (Lane const lane : {Lane::tp, Lane::cp, Lane::ep, Lane::dp, Lane::pp}) {
    double const ms = b.exposed_axis_ms[static_cast<std::size_t>(lane)];
    if (ms > 0) parts.push_back({fmt::format("{} communication waited for", to_string(lane)), ms});
  }
  parts.push_back({"pipeline bubble", b.bubble_ms});
  parts.push_back({"other idle time", b.idle_ms - b.bubble_ms});
  return parts;
}

std::vector<StepPart> part_differences(Prediction const& best, Prediction const& other) {
  std::vector<StepPart> differences = step_parts(other);
  for (StepPart const& mine : step_parts(best)) {
    auto const same = std::ranges::find(differences, mine.name, &StepPart::name);
    if (same == differences.end())
      differences.push_back({mine.name, -mine.ms});
    else
      same->ms -= mine.ms;
  }
  std::erase_if(differences, [&](StepPart const& d) { return std::abs(d.ms) < worth_saying * best.step_ms; });
  std::ranges::stable_sort(differences, std::greater<>{}, &StepPart::ms);
  return differences;
}

std::vector<OversizedLayer> oversized_layers(PlanRequest const& request, CostModel const& model, double allowed) {
  std::vector<OversizedLayer> found;
  LayerCostTable table(request, model);
  LayerCosts const whole = table.of({});
  if (!whole.problem.empty()) return found;
  for (std::size_t kind = 0; kind < whole.kinds.size(); ++kind) {
    PieceCost const& piece = whole.kinds[kind];
    bool const experts = request.base.model.moe && kind + 1 == whole.kinds.size();
    OversizedLayer layer;
    layer.piece = whole.kinds.size() == 1 ? "layer" : experts ? "expert layer" : "dense layer";
    layer.parameters = piece.parameters + piece.expert_parameters;
    layer.bytes = layer_bytes(whole, piece);
    if (layer.bytes <= allowed) continue;
    std::vector<std::int64_t> const tp = legal_tp(request.base.model, request.base.model.heads);
    std::vector<std::int64_t> ep;
    if (experts)
      for (std::int64_t d = 1; d <= request.base.model.moe->experts; ++d)
        if (request.base.model.moe->experts % d == 0) ep.push_back(d);
    layer.tp = least_degree(table, &LayerKey::tp, tp, kind, allowed, layer.bytes_with_tp);
    double bytes = 0;
    layer.ep = least_degree(table, &LayerKey::ep, ep, kind, allowed, bytes);
    found.push_back(layer);
  }
  return found;
}

std::vector<SmallCandidate> smallest_in_memory(PlanRequest const& request, CostModel const& model) {
  PlanRequest frugal_request = request;
  frugal_request.axes = frugal(request);
  std::map<std::pair<std::int8_t, bool>, SmallCandidate> by_class;
  PlanCoster coster(frugal_request, model);
  for_each_candidate(frugal_request, [&](Candidate const& c) {
    PlanCost const* const cost = coster.cost(c);
    if (!cost) return;
    SmallCandidate& smallest = by_class[{c.zero_stage, c.pp > 1}];
    if (smallest.needed_bytes == 0 || cost->memory_bytes < smallest.needed_bytes) smallest = {c, cost->memory_bytes};
  });
  std::vector<SmallCandidate> all;
  for (auto const& [name, candidate] : by_class) all.push_back(candidate);
  std::ranges::stable_sort(all, {}, &SmallCandidate::needed_bytes);
  return all;
}

std::optional<PlannedPoint> smallest_that_fits(PlanRequest const& request, CostModel const& model, double allowed) {
  for (SmallCandidate const& c : smallest_in_memory(request, model)) {
    if (c.needed_bytes > allowed) break;
    try {
      PlannedPoint point = look_closer(request, model, c.candidate);
      if (point.memory.needed_bytes <= allowed) return point;
    } catch (IllegalConfig const&) {
      continue;  // a rule of the whole program that its layers alone do not show
    }
  }
  return std::nullopt;
}

}  // namespace shardbench
