#include "harness/planner/objective.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "harness/config/field_text.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr std::array<std::string_view, static_cast<std::size_t>(Objective::size_)> names{
    "step-time", "tokens-per-gpu-hour", "cost", "memory", "gpus", "latency"};
constexpr std::size_t front_points = 8;

bool cuts_the_model(Candidate const& c) { return c.tp * c.pp * c.cp * c.ep > 1; }

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
                    ScreenedFront const& screened) {
  std::vector<PlannedPoint> points = plan.result.best;
  for (ScreenedPoint const& s : spread(screened.points(), front_points)) {
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
                     ScreenedFront const& screened) {
  std::vector<ScreenedPoint> small = screened.points();
  std::ranges::reverse(small);
  for (ScreenedPoint const& s : small) {
    if (result.best.size() >= 2 * options.top) break;
    if (std::optional<PlannedPoint> point = closer(request, model, options, s)) result.best.push_back(std::move(*point));
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
  ScreenedFront front;
  std::optional<ScreenedPoint> fastest_cut;
  options.watch = [&](Candidate const& c, PlanCost const& cost) {
    front.add(c, cost);
    if (cuts_the_model(c) && (!fastest_cut || cost.step_ms < fastest_cut->cost.step_ms)) fastest_cut = {c, cost};
  };
  plan_of.result = plan(request, model, options);
  std::vector<PlannedPoint>& best = plan_of.result.best;
  if (objective == Objective::memory) order_by_memory(plan_of.result, request, model, options, front);
  if (with_front) simulate_front(plan_of, request, model, options, front);
  if (!best.empty() && !cuts_the_model(best.front().candidate) && fastest_cut)
    plan_of.fastest_model_cut = closer(request, model, options, *fastest_cut);
  return plan_of;
}

}  // namespace shardbench
