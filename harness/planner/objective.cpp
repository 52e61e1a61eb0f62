#include "harness/planner/objective.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "harness/config/field_text.hpp"
#include "harness/planner/worker_threads.hpp"
#include "harness/program/passes/lower.hpp"
#include "kernels/core/error.hpp"
#include "kernels/core/index.hpp"

namespace shardbench {
namespace {

constexpr EnumNames<Objective> names{"step-time", "tokens-per-gpu-hour", "cost", "memory", "gpus", "latency"};
constexpr std::size_t front_points = 8;
/// Of the small end of the front, however short the answer: a short one shall not be a worse one.
constexpr std::size_t least_small_looks = 5;

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

/// So many points of the front, both ends among them.
std::vector<ScreenedPoint> spread(std::vector<ScreenedPoint> const& all, std::size_t count) {
  if (all.size() <= count) return all;
  std::vector<ScreenedPoint> some;
  for (std::size_t i = 0; i < count; ++i) some.push_back(all[i * (all.size() - 1) / (count - 1)]);
  return some;
}

/// Everything that was simulated and fits, whatever it was simulated for: one pool, so that no answer taken from it is
/// beaten by what another answer has seen.
class Looks {
 public:
  Looks(PlanRequest const& request, CostModel const& model, PlanOptions const& options, PlanResult const& found)
      : request_(request), model_(model), options_(options), points_(found.best) {
    points_.insert(points_.end(), found.slower.begin(), found.slower.end());
  }

  /// Simulates those of them that are new.
  void look_at(std::vector<ScreenedPoint> const& screened) {
    std::vector<ScreenedPoint> fresh;
    for (ScreenedPoint const& s : screened) {
      bool const twice = std::ranges::any_of(fresh, [&](auto const& f) { return f.candidate == s.candidate; });
      if (!twice && !find(s.candidate)) fresh.push_back(s);
    }
    std::vector<std::optional<PlannedPoint>> found(fresh.size());
    for_each_of(
        fresh.size(), [&](std::size_t i, CostModel const& mine) { found[i] = closer(mine, fresh[i]); }, model_);
    for (std::optional<PlannedPoint>& point : found)
      if (point) points_.push_back(std::move(*point));
  }

  /// Nullptr where it was not simulated or does not fit.
  PlannedPoint const* find(Candidate const& c) const {
    auto const at = std::ranges::find(points_, c, &PlannedPoint::candidate);
    return at == points_.end() ? nullptr : &*at;
  }

  std::vector<PlannedPoint> smallest(std::size_t count) const {
    std::vector<PlannedPoint> points = points_;
    std::ranges::stable_sort(points, {}, [](PlannedPoint const& p) { return std::tie(bytes_of(p), p.step_ms); });
    if (points.size() > count) points.erase(points.begin() + static_cast<std::ptrdiff_t>(count), points.end());
    return points;
  }

  /// Fastest first, each smaller than the one before.
  std::vector<PlannedPoint> front() const {
    std::vector<PlannedPoint const*> order;
    for (PlannedPoint const& p : points_) order.push_back(&p);
    std::ranges::stable_sort(order, {}, [](PlannedPoint const* p) { return std::tie(p->step_ms, bytes_of(*p)); });
    std::vector<PlannedPoint> kept;
    for (PlannedPoint const* p : order)
      if (kept.empty() || bytes_of(*p) < bytes_of(kept.back())) kept.push_back(*p);
    return kept;
  }

  std::vector<SimulatedPoint> all() const {
    std::vector<SimulatedPoint> points;
    for (PlannedPoint const& p : points_) points.push_back({p.candidate, {p.step_ms, bytes_of(p), p.step_ms}});
    return points;
  }

 private:
  static double const& bytes_of(PlannedPoint const& p) { return p.memory.needed_bytes; }

  /// Nothing when it has no program or does not fit after all.
  std::optional<PlannedPoint> closer(CostModel const& model, ScreenedPoint const& screened) const {
    try {
      PlannedPoint point = look_closer(request_, model, screened.candidate);
      point.screened = screened.cost;
      if (bytes_of(point) > options_.memory_share * point.memory.capacity_bytes) return std::nullopt;
      return point;
    } catch (IllegalConfig const&) {
      return std::nullopt;  // a rule of the whole program that its layers alone do not show
    }
  }

  PlanRequest const& request_;
  CostModel const& model_;
  PlanOptions const& options_;
  std::vector<PlannedPoint> points_;
};

/// What is looked at for the front and for the memory objective alike, so that both have the same small end.
std::vector<ScreenedPoint> front_and_small_end(Watched const& watched, PlanRequest const& request, std::size_t top) {
  std::vector<ScreenedPoint> const front = watched.front(request);
  std::vector<ScreenedPoint> some = spread(front, front_points);
  for (std::size_t i = 0; i < std::min(front.size(), std::max(top, least_small_looks)); ++i)
    some.push_back(front[front.size() - 1 - i]);
  // Closed forms of memory are rougher for some classes than for others: the least of each is looked at.
  for (ScreenedPoint const& s : watched.smallest()) some.push_back(s);
  return some;
}

/// Where the best only cuts the data: the fastest with a program of those that cut the model.
void add_model_cut(ObjectivePlan& plan, Watched const& watched, Looks& looks) {
  std::vector<PlannedPoint> const& best = plan.result.best;
  if (best.empty() || cuts_the_model(best.front().candidate)) return;
  for (ScreenedPoint const& cut : watched.model_cuts()) {
    looks.look_at({cut});
    PlannedPoint const* const found = looks.find(cut.candidate);
    if (!found) continue;
    plan.fastest_model_cut = *found;
    return;
  }
}

}  // namespace

std::string_view to_string(Objective objective) { return names[objective]; }

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
  Looks looks(request, model, options, plan_of.result);
  plan_of.result.slower.clear();
  bool const by_memory = objective == Objective::memory;
  if (by_memory || with_front) looks.look_at(front_and_small_end(watched, request, options.top));
  if (by_memory) best = looks.smallest(options.top);
  add_model_cut(plan_of, watched, looks);
  plan_of.simulated = looks.all();
  if (with_front) plan_of.front = looks.front();
  return plan_of;
}

}  // namespace shardbench
