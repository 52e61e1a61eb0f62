#include "harness/planner/plan.hpp"

#include <algorithm>
#include <iterator>

#include "harness/planner/plan_search.hpp"
#include "harness/planner/screen.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

/// The candidates that fit, of which the slowest make room when they are too many.
class Kept {
 public:
  void add(Candidate const& c, PlanCost const& cost) {
    if (points_.size() == 2 * most) drop_slowest();
    points_.push_back({c, cost});
  }
  /// In order of time and, among equals, of the enumeration.
  std::vector<ScreenedPoint> fastest_first() && {
    drop_slowest();
    return std::move(points_);
  }

 private:
  static constexpr std::size_t most = 100'000;
  void drop_slowest() {
    std::ranges::stable_sort(points_, {}, [](ScreenedPoint const& s) { return s.cost.step_ms; });
    if (points_.size() > most) points_.resize(most);
  }
  std::vector<ScreenedPoint> points_;
};

void order(PlanResult& result, std::size_t top) {
  std::vector<PlannedPoint>& best = result.best;
  std::ranges::stable_sort(best, {}, &PlannedPoint::step_ms);
  if (best.size() <= top) return;
  auto const beyond = best.begin() + static_cast<std::ptrdiff_t>(top);
  result.slower.assign(std::move_iterator(beyond), std::move_iterator(best.end()));
  best.erase(beyond, best.end());
}

}  // namespace

double allowed_bytes(CostModel const& model, double share) { return share * model.system().device.memory_gb * 1e9; }

PlannedPoint look_closer(PlanRequest const& request, CostModel const& model, Candidate const& candidate) {
  PlannedPoint point;
  point.candidate = candidate;
  point.experiment = experiment_of(request, candidate);
  point.prediction = predict_step(point.experiment, model, {.record_spans = false, .break_down = true});
  point.step_ms = point.prediction.step_ms;
  point.memory = memory_fit(point.prediction.stages, model.system(), model.stack());
  point.prediction.stages.clear();
  return point;
}

PlanResult plan(PlanRequest const& request, CostModel const& model, PlanOptions const& options) {
  PlanCoster coster(request, model);
  return plan(request, model, options, coster);
}

PlanResult plan(PlanRequest const& request, CostModel const& model, PlanOptions const& options, PlanCoster& coster) {
  PlanResult result;
  std::string problem;
  double const allowed = allowed_bytes(model, options.memory_share);
  Kept kept;
  ScreenCount const count = for_each_cost(
      request, coster, allowed,
      [&](Candidate const& c, PlanCost const* cost) {
        if (!cost) {
          ++result.no_program;
          if (problem.empty()) problem = coster.problem();
          return;
        }
        ++result.costed;
        if (result.least_memory_bytes == 0 || cost->memory_bytes < result.least_memory_bytes)
          result.least_memory_bytes = cost->memory_bytes, result.smallest = c;
        if (cost->memory_bytes > allowed) {
          ++result.too_big;
          return;
        }
        if (result.screened_ms == 0 || cost->step_ms < result.screened_ms) result.screened_ms = cost->step_ms;
        if (options.watch) options.watch(c, *cost);
        kept.add(c, *cost);
      },
      options.enough_ms);
  result.space = count.space, result.left_out = count.left_out;
  result.layer_keys = coster.layer_keys();
  if (result.space.legal == 0)
    throw InputError(
        "plan: no legal configuration: the devices, batch and demands (--fix, --exclude) leave nothing; "
        "allowed: other demands, or a device count and batch with more divisors");
  if (result.costed == 0) throw InputError("plan: no configuration of these demands has a program: " + problem);
  PlanSearch(request, model, options, coster).run(std::move(kept).fastest_first(), result);
  order(result, options.top);
  return result;
}

}  // namespace shardbench
