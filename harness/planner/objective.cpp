#include "harness/planner/objective.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "harness/config/field_text.hpp"
#include "harness/program/lower.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr std::array<std::string_view, static_cast<std::size_t>(Objective::size_)> names{
    "step-time", "tokens-per-gpu-hour", "cost", "memory", "gpus", "latency"};
constexpr std::size_t front_points = 8;

bool cuts_the_model(Candidate const& c) { return c.tp * c.pp * c.cp * c.ep > 1; }

/// What decides, beyond the layers, whether a candidate has a program: schedule, ZeRO stage, pipeline or none.
using ProgramClass = std::tuple<ScheduleKind, std::int8_t, bool>;

struct ClassPoints {
  ScreenedFront front;
  std::optional<ScreenedPoint> fastest_cut;  ///< of those that cut the model
};

/// The screened points worth a closer look, by class, so that a class without a program hides no other.
class Watched {
 public:
  void add(Candidate const& c, PlanCost const& cost) {
    ClassPoints& points = classes_[{c.schedule, c.zero_stage, c.pp > 1}];
    points.front.add(c, cost);
    std::optional<ScreenedPoint>& fastest = points.fastest_cut;
    if (cuts_the_model(c) && (!fastest || cost.step_ms < fastest->cost.step_ms)) fastest = {c, cost};
  }

  /// Of the classes with a program, fastest first.
  std::vector<ScreenedPoint> front(PlanRequest const& request) const {
    ScreenedFront all;
    for (auto const& [name, points] : classes_) {
      std::vector<ScreenedPoint> const some = points.front.points();
      if (!has_program(request, some.front().candidate)) continue;
      for (ScreenedPoint const& s : some) all.add(s.candidate, s.cost);
    }
    return all.points();
  }

  /// The smallest of each class, smallest first.
  std::vector<ScreenedPoint> smallest() const {
    std::vector<ScreenedPoint> small;
    for (auto const& [name, points] : classes_) small.push_back(points.front.points().back());
    std::ranges::stable_sort(small, {}, [](ScreenedPoint const& s) { return s.cost.memory_bytes; });
    return small;
  }

  /// The fastest of each class that cuts the model, fastest first.
  std::vector<ScreenedPoint> model_cuts() const {
    std::vector<ScreenedPoint> cuts;
    for (auto const& [name, points] : classes_)
      if (points.fastest_cut) cuts.push_back(*points.fastest_cut);
    std::ranges::stable_sort(cuts, {}, [](ScreenedPoint const& s) { return s.cost.step_ms; });
    return cuts;
  }

 private:
  static bool has_program(PlanRequest const& request, Candidate const& c) {
    try {
      static_cast<void>(lower(experiment_of(request, c), 0));
      return true;
    } catch (IllegalConfig const&) {
      return false;
    }
  }

  std::map<ProgramClass, ClassPoints> classes_;
};

/// Looks closer at a screened point; nothing when it has no program or does not fit after all.
std::optional<PlannedPoint> closer(PlanRequest const& request, CostModel const& model, PlanOptions const& options,
                                   ScreenedPoint const& screened) {
  try {
    PlannedPoint point = look_closer(request, model, screened.candidate);
    point.screened = screened.cost;
    if (point.memory.needed_bytes > options.memory_share * point.memory.capacity_bytes) return std::nullopt;
    return point;
  } catch (IllegalConfig const&) {
    return std::nullopt;  // a rule of the whole program that its layers alone do not show
  }
}

/// So many points of the front, both ends among them.
std::vector<ScreenedPoint> spread(std::vector<ScreenedPoint> const& all, std::size_t count) {
  if (all.size() <= count) return all;
  std::vector<ScreenedPoint> some;
  for (std::size_t i = 0; i < count; ++i) some.push_back(all[i * (all.size() - 1) / (count - 1)]);
  return some;
}

void simulate_front(ObjectivePlan& plan, PlanRequest const& request, CostModel const& model, PlanOptions const& options,
                    Watched const& screened) {
  std::vector<PlannedPoint> points = plan.result.best;
  for (ScreenedPoint const& s : spread(screened.front(request), front_points)) {
    bool const known = std::ranges::any_of(points, [&](PlannedPoint const& p) { return p.candidate == s.candidate; });
    if (known) continue;
    if (std::optional<PlannedPoint> point = closer(request, model, options, s)) points.push_back(std::move(*point));
  }
  std::ranges::stable_sort(points, {}, &PlannedPoint::step_ms);
  std::vector<PlanScore> scores;
  for (PlannedPoint const& p : points) scores.push_back({p.step_ms, p.memory.needed_bytes, p.step_ms});
  std::vector<bool> const kept = pareto_front(scores);
  for (std::size_t i = 0; i < points.size(); ++i)
    if (kept[i]) plan.front.push_back(std::move(points[i]));
}

void order_by_memory(PlanResult& result, PlanRequest const& request, CostModel const& model, PlanOptions const& options,
                     Watched const& screened) {
  std::vector<ScreenedPoint> small = screened.front(request);
  std::ranges::reverse(small);
  if (small.size() > options.top) small.resize(options.top);
  // Closed forms of memory are rougher for some classes than for others: the least of each is looked at.
  for (ScreenedPoint const& s : screened.smallest()) small.push_back(s);
  for (ScreenedPoint const& s : small) {
    if (std::ranges::any_of(result.best, [&](PlannedPoint const& p) { return p.candidate == s.candidate; })) continue;
    if (std::optional<PlannedPoint> point = closer(request, model, options, s))
      result.best.push_back(std::move(*point));
  }
  std::ranges::stable_sort(result.best, {}, [](PlannedPoint const& p) { return p.memory.needed_bytes; });
  if (result.best.size() > options.top)
    result.best.erase(result.best.begin() + static_cast<std::ptrdiff_t>(options.top), result.best.end());
}

}  // namespace

std::string_view to_string(Objective objective) { return names.at(static_cast<std::size_t>(objective)); }

Objective parse_objective(std::string_view text) {
  auto const found = std::ranges::find(names, text);
  if (found == names.end())
    throw InputError(fmt::format("--objective: {}; allowed: {}", in_quotes(text), fmt::join(names, ", ")));
  return static_cast<Objective>(found - names.begin());
}

std::vector<bool> pareto_front(std::span<PlanScore const> points) {
  auto const beats = [](PlanScore const& a, PlanScore const& b) {
    bool const as_good = a.time_ms <= b.time_ms && a.memory_bytes <= b.memory_bytes && a.cost <= b.cost;
    return as_good && (a.time_ms < b.time_ms || a.memory_bytes < b.memory_bytes || a.cost < b.cost);
  };
  std::vector<bool> kept;
  for (PlanScore const& p : points)
    kept.push_back(std::ranges::none_of(points, [&](PlanScore const& other) { return beats(other, p); }));
  return kept;
}

void ScreenedFront::add(Candidate const& candidate, PlanCost const& cost) {
  auto after = by_time_.upper_bound(cost.step_ms);
  if (after != by_time_.begin() && std::prev(after)->second.cost.memory_bytes <= cost.memory_bytes) return;
  auto const at = by_time_.lower_bound(cost.step_ms);
  while (after != by_time_.end() && after->second.cost.memory_bytes >= cost.memory_bytes) ++after;
  by_time_.erase(at, after);
  by_time_.emplace(cost.step_ms, ScreenedPoint{candidate, cost});
}

std::vector<ScreenedPoint> ScreenedFront::points() const {
  std::vector<ScreenedPoint> all;
  for (auto const& [ms, point] : by_time_) all.push_back(point);
  return all;
}

ObjectivePlan plan_for(PlanRequest const& request, CostModel const& model, PlanOptions options, Objective objective,
                       bool with_front) {
  ObjectivePlan plan_of;
  Watched watched;
  options.watch = [&](Candidate const& c, PlanCost const& cost) { watched.add(c, cost); };
  plan_of.result = plan(request, model, options);
  std::vector<PlannedPoint>& best = plan_of.result.best;
  if (objective == Objective::memory) order_by_memory(plan_of.result, request, model, options, watched);
  if (with_front) simulate_front(plan_of, request, model, options, watched);
  if (best.empty() || cuts_the_model(best.front().candidate)) return plan_of;
  for (ScreenedPoint const& cut : watched.model_cuts()) {
    plan_of.fastest_model_cut = closer(request, model, options, cut);
    if (plan_of.fastest_model_cut) break;
  }
  return plan_of;
}

}  // namespace shardbench
