#include "harness/planner/plan.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "harness/planner/worker_threads.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

/// Candidates kept for each that is simulated: some turn out to have no program or not to fit after all.
constexpr std::size_t spare_factor = 8;

/// The fastest few, in order of time and, among equals, of the enumeration.
class Fastest {
 public:
  explicit Fastest(std::size_t room) : room_(room) {}
  /// The same cut with another ZeRO stage and no other time is no other answer: the first, least sharded one stays.
  bool has_twin(Candidate c, double step_ms) const {
    return std::ranges::any_of(kept_, [&](ScreenedPoint const& k) {
      c.zero_stage = k.candidate.zero_stage;
      return k.cost.step_ms == step_ms && k.candidate == c;
    });
  }
  bool takes(double step_ms) const { return kept_.size() < room_ || step_ms < kept_.back().cost.step_ms; }
  void add(ScreenedPoint const& s) {
    auto const at =
        std::ranges::upper_bound(kept_, s.cost.step_ms, {}, [](ScreenedPoint const& k) { return k.cost.step_ms; });
    kept_.insert(at, s);
    if (kept_.size() > room_) kept_.pop_back();
  }
  std::vector<ScreenedPoint> const& kept() const { return kept_; }

 private:
  std::size_t room_;
  std::vector<ScreenedPoint> kept_;
};

/// What the closed forms may be wrong about together.
using ScreeningClass = std::tuple<ScheduleKind, std::int8_t, bool>;
ScreeningClass class_of(Candidate const& c) { return {c.schedule, c.zero_stage, c.tp_overlap}; }

/// The fastest few of all, and of each class.
class Kept {
 public:
  explicit Kept(std::size_t room) : all_(room) {}
  void add(Candidate const& c, PlanCost const& cost) {
    add_to(all_, c, cost);
    auto const [at, fresh] = classes_.try_emplace(class_of(c), room_of_class);
    add_to(at->second, c, cost);
  }
  /// Each once, those of all first.
  std::vector<ScreenedPoint> candidates() const {
    std::vector<ScreenedPoint> every = all_.kept();
    for (auto const& [name, fastest] : classes_)
      for (ScreenedPoint const& s : fastest.kept())
        if (std::ranges::none_of(every, [&](ScreenedPoint const& other) { return other.candidate == s.candidate; }))
          every.push_back(s);
    return every;
  }

 private:
  static constexpr std::size_t room_of_class = 12;
  static void add_to(Fastest& fastest, Candidate const& c, PlanCost const& cost) {
    if (fastest.takes(cost.step_ms) && !fastest.has_twin(c, cost.step_ms)) fastest.add({c, cost});
  }
  Fastest all_;
  std::map<ScreeningClass, Fastest> classes_;
};

void order(std::vector<PlannedPoint>& points, std::size_t top) {
  std::ranges::stable_sort(points, {}, &PlannedPoint::step_ms);
  if (points.size() > top) points.erase(points.begin() + static_cast<std::ptrdiff_t>(top), points.end());
}

/// Simulates a candidate; its programs and spans are not kept.
PlannedPoint look(PlanRequest const& request, CostModel const& model, Candidate const& candidate) {
  PlannedPoint point;
  point.candidate = candidate;
  point.experiment = experiment_of(request, candidate);
  point.prediction = predict_step(point.experiment, model, {.record_spans = false, .break_down = true});
  point.step_ms = point.prediction.step_ms;
  point.memory = memory_fit(point.prediction.programs, model.system(), model.stack());
  point.prediction.programs = std::vector<StepProgram>();
  return point;
}

/// Candidates that are simulated side by side, whatever the number of cores.
constexpr std::size_t side_by_side = 4;

/// Simulates candidates, the fastest first, until the rest cannot win. What the closed forms leave out is much the same
/// within a class, so each simulated step corrects the order of those of its class that are left: one class that is
/// told too fast does not keep the others from being looked at.
class Search {
 public:
  Search(PlanRequest const& request, CostModel const& model, PlanOptions const& options,
         std::vector<ScreenedPoint> candidates)
      : request_(request), model_(model), options_(options), left_(std::move(candidates)) {}

  void run(PlanResult& result) {
    double const allowed = allowed_bytes(model_, options_.memory_share);
    double best_ms = 0;
    while (!left_.empty()) {
      std::vector<ScreenedPoint> const now = take_fastest(
          result.best.size() >= std::max(options_.top, options_.simulated) ? best_ms
                                                                           : std::numeric_limits<double>::infinity());
      if (now.empty()) return;
      std::vector<std::optional<PlannedPoint>> looks(now.size());
      std::vector<std::string> problems(now.size());
      for_each_of(
          now.size(),
          [&](std::size_t k, CostModel const& mine) {
            try {
              looks[k] = look(request_, mine, now[k].candidate);
            } catch (IllegalConfig const& refusal) {  // a rule of the whole program that its layers alone do not show
              problems[k] = refusal.what();
            }
          },
          model_);
      for (std::size_t k = 0; k < now.size(); ++k) {
        if (!looks[k]) {
          ++result.no_program;
          if (result.problem.empty()) result.problem = problems[k];
          continue;
        }
        learn(now[k], looks[k]->step_ms);
        if (looks[k]->memory.needed_bytes > allowed) continue;
        double const ms = looks[k]->step_ms;
        best_ms = best_ms == 0 ? ms : std::min(best_ms, ms);
        result.best.push_back(std::move(*looks[k]));
        result.best.back().screened = now[k].cost;
      }
    }
  }

 private:
  double expected_ms(ScreenedPoint const& s) const {
    auto const known = ratio_.find(class_of(s.candidate));
    return s.cost.step_ms * (known == ratio_.end() ? unseen_ratio : known->second);
  }
  /// The few that are expected to be fastest, none of them slower than `limit_ms`; they are no longer left.
  std::vector<ScreenedPoint> take_fastest(double limit_ms) {
    std::ranges::stable_sort(left_, {}, [&](ScreenedPoint const& s) { return expected_ms(s); });
    std::size_t count = 0;
    while (count < std::min(side_by_side, left_.size()) && expected_ms(left_[count]) <= limit_ms) ++count;
    auto const end = left_.begin() + static_cast<std::ptrdiff_t>(count);
    std::vector<ScreenedPoint> taken(left_.begin(), end);
    left_.erase(left_.begin(), end);
    return taken;
  }
  void learn(ScreenedPoint const& s, double simulated_ms) {
    double const ratio = simulated_ms / s.cost.step_ms;
    auto const [at, fresh] = ratio_.try_emplace(class_of(s.candidate), ratio);
    if (!fresh) at->second = std::min(at->second, ratio);
  }

  PlanRequest const& request_;
  CostModel const& model_;
  PlanOptions const& options_;
  std::vector<ScreenedPoint> left_;
  /// A class that was never simulated may be that much faster than told: one look each settles it.
  static constexpr double unseen_ratio = 0.9;
  std::map<ScreeningClass, double> ratio_;  ///< least simulated over screened time seen
};

}  // namespace

double allowed_bytes(CostModel const& model, double share) { return share * model.system().device.memory_gb * 1e9; }

PlannedPoint look_closer(PlanRequest const& request, CostModel const& model, Candidate const& candidate) {
  return look(request, model, candidate);
}

PlanResult plan(PlanRequest const& request, CostModel const& model, PlanOptions const& options) {
  PlanResult result;
  std::string problem;
  PlanCoster coster(request, model);
  coster.prepare();
  double const allowed = allowed_bytes(model, options.memory_share);
  Kept kept(spare_factor * std::max(options.top, options.simulated));
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
    kept.add(c, *cost);
  });
  result.layer_keys = coster.layer_keys();
  if (result.space.legal == 0)
    throw InputError(
        "plan: no legal configuration: the devices, batch and demands (--fix, --exclude) leave nothing; "
        "allowed: other demands, or a device count and batch with more divisors");
  if (result.costed == 0) throw InputError("plan: no configuration of these demands has a program: " + problem);
  Search(request, model, options, kept.candidates()).run(result);
  order(result.best, options.top);
  return result;
}

}  // namespace shardbench
