#include "harness/planner/count_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace shardbench {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Every key of a dense model that can be the fastest; more recomputation never is.
std::vector<LayerKey> fastest_keys(PlanAxes const& axes) {
  Recompute const recompute = std::ranges::min(axes.recompute);
  std::vector<LayerKey> keys;
  for (std::int32_t const tp : axes.tp)
    for (std::int32_t const cp : axes.cp)
      for (std::int32_t const micro_batch : axes.micro_batch)
        for (bool const sequence : axes.sequence_parallel)
          for (bool const overlap : axes.tp_overlap)
            if (tp > 1 || (!sequence && !overlap))
              keys.push_back({tp, cp, 1, 1, micro_batch, sequence, overlap, recompute});
  return keys;
}

}  // namespace

CountBound::CountBound(PlanRequest const& widest, PlanCoster& coster) : widest_(widest) {
  if (widest.base.model.moe || widest.base.model.yolo) return;
  paired_ = std::ranges::any_of(widest.axes.schedule, [](ScheduleKind kind) { return rules_of(kind).mirrored(); });
  std::vector<LayerKey> const keys = fastest_keys(widest.axes);
  coster.prepare(keys);
  for (LayerKey const& key : keys) {
    LayerCosts const& costs = coster.layer_costs(key);
    if (!costs.problem.empty()) continue;
    auto const ms = [&](PieceCost const& piece) { return (piece.forward_ms + piece.backward_ms) / key.micro_batch; };
    Sample& least = samples_.try_emplace({key.tp, key.cp}, Sample{infinity, infinity}).first->second;
    least.layer_ms = std::min(least.layer_ms, ms(costs.kinds.front()));
    least.outside_ms = std::min(least.outside_ms, ms(costs.outside.embedding) + ms(costs.outside.head));
  }
}

double CountBound::stage_ms(Sample const& sample, std::int64_t pp) const {
  auto const layers = static_cast<double>(widest_.base.model.layers), stages = static_cast<double>(pp);
  double const steps = paired_ && pp % 2 == 0 ? 2 : 1;  // of a rank's layers: halves where it holds two stages by half
  return std::max(std::ceil(steps * layers / stages) / steps * sample.layer_ms,
                  (layers * sample.layer_ms + sample.outside_ms) / stages);
}

double CountBound::step_ms(std::int64_t devices) const {
  if (samples_.empty()) return 0;
  PlanAxes const& axes = widest_.axes;
  std::int64_t const batch = widest_.base.global_batch;
  double least = infinity;
  for (auto const& [cut, sample] : samples_)
    for (std::int64_t const pp : axes.pp) {
      std::int64_t const copy = static_cast<std::int64_t>(cut.first) * cut.second * pp, dp = devices / copy;
      bool const legal =
          dp * copy == devices && batch % dp == 0 && (axes.dp.empty() || std::ranges::count(axes.dp, dp) > 0);
      if (legal) least = std::min(least, static_cast<double>(batch / dp) * stage_ms(sample, pp));
    }
  return least;
}

}  // namespace shardbench
