#include "harness/planner/plan.hpp"

#include <algorithm>
#include <optional>

#include "harness/planner/worker_threads.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

/// Candidates kept for each that is simulated: some turn out to have no program or not to fit after all.
constexpr std::size_t spare_factor = 8;

struct Screened {
  Candidate candidate;
  PlanCost cost;
};

/// The fastest few, in order of time and, among equals, of the enumeration.
class Fastest {
 public:
  explicit Fastest(std::size_t room) : room_(room) {}
  /// The same cut with another ZeRO stage and no other time is no other answer: the first, least sharded one stays.
  bool has_twin(Candidate c, double step_ms) const {
    return std::ranges::any_of(kept_, [&](Screened const& k) {
      c.zero_stage = k.candidate.zero_stage;
      return k.cost.step_ms == step_ms && k.candidate == c;
    });
  }
  bool takes(double step_ms) const { return kept_.size() < room_ || step_ms < kept_.back().cost.step_ms; }
  void add(Screened const& s) {
    auto const at =
        std::ranges::upper_bound(kept_, s.cost.step_ms, {}, [](Screened const& k) { return k.cost.step_ms; });
    kept_.insert(at, s);
    if (kept_.size() > room_) kept_.pop_back();
  }
  std::vector<Screened> const& kept() const { return kept_; }

 private:
  std::size_t room_;
  std::vector<Screened> kept_;
};

double allowed_bytes(CostModel const& model, PlanOptions const& options) {
  return options.memory_share * model.system().device.memory_gb * 1e9;
}

void order(std::vector<PlannedPoint>& points, std::size_t top) {
  std::ranges::stable_sort(points, {}, &PlannedPoint::step_ms);
  if (points.size() > top) points.erase(points.begin() + static_cast<std::ptrdiff_t>(top), points.end());
}

}  // namespace

namespace {

/// Simulates a candidate; without spans there is no breakdown, and the programs are not kept either.
PlannedPoint look(PlanRequest const& request, CostModel const& model, Candidate const& candidate, bool spans) {
  PlannedPoint point;
  point.candidate = candidate;
  point.experiment = experiment_of(request, candidate);
  point.prediction = predict_step(point.experiment, model, {.record_spans = spans});
  for (StageTimeline& stage : point.prediction.result.stages) stage.spans = {}, stage.waits = {};
  point.step_ms = point.prediction.step_ms;
  point.memory = memory_fit(point.prediction.programs, model.system(), model.stack());
  if (!spans) point.prediction = {};
  return point;
}

/// Candidates that are simulated side by side, whatever the number of cores.
constexpr std::size_t side_by_side = 4;

/// Simulates the kept candidates, fastest by the closed forms first, until the rest cannot win.
void simulate_fastest(PlanRequest const& request, CostModel const& model, PlanOptions const& options,
                      std::vector<Screened> const& kept, PlanResult& result) {
  double const allowed = allowed_bytes(model, options);
  double best_ms = 0;
  std::vector<std::optional<PlannedPoint>> looks(kept.size());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    // Closed forms leave out what gets in each other's way: once they alone are slower than a simulated step, what
    // follows cannot win.
    bool const enough = result.best.size() >= std::max(options.top, options.simulated);
    if (enough && kept[i].cost.step_ms > best_ms) return;
    if (i % side_by_side == 0)
      for_each_of(
          std::min(side_by_side, kept.size() - i),
          [&](std::size_t k, CostModel const& mine) {
            try {
              looks[i + k] = look(request, mine, kept[i + k].candidate, false);
            } catch (IllegalConfig const&) {  // a rule of the whole program that its layers alone do not show
            }
          },
          model);
    if (!looks[i]) ++result.no_program;
    if (!looks[i] || looks[i]->memory.needed_bytes > allowed) continue;
    result.best.push_back(std::move(*looks[i]));
    result.best.back().screened = kept[i].cost;
    double const ms = result.best.back().step_ms;
    best_ms = best_ms == 0 ? ms : std::min(best_ms, ms);
  }
}

}  // namespace

PlannedPoint look_closer(PlanRequest const& request, CostModel const& model, Candidate const& candidate) {
  return look(request, model, candidate, true);
}

PlanResult plan(PlanRequest const& request, CostModel const& model, PlanOptions const& options) {
  PlanResult result;
  std::string problem;
  PlanCoster coster(request, model);
  coster.prepare();
  double const allowed = allowed_bytes(model, options);
  Fastest fastest(spare_factor * std::max(options.top, options.simulated));
  result.space = for_each_candidate(request, [&](Candidate const& c) {
    PlanCost const* const cost = coster.cost(c);
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
    if (options.watch) options.watch(c, *cost);
    if (fastest.takes(cost->step_ms) && !fastest.has_twin(c, cost->step_ms)) fastest.add({c, *cost});
  });
  result.layer_keys = coster.layer_keys();
  if (result.space.legal == 0)
    throw InputError(
        "plan: no legal configuration: the devices, batch and demands (--fix, --exclude) leave nothing; "
        "allowed: other demands, or a device count and batch with more divisors");
  if (result.costed == 0) throw InputError("plan: no configuration of these demands has a program: " + problem);
  simulate_fastest(request, model, options, fastest.kept(), result);
  order(result.best, options.top);
  for_each_of(
      result.best.size(),
      [&](std::size_t i, CostModel const& mine) {
        PlannedPoint& point = result.best[i];
        PlanCost const screened = point.screened;
        point = look_closer(request, mine, point.candidate);
        point.screened = screened;
      },
      model);
  return result;
}

}  // namespace shardbench
