#include "harness/planner/plan_search.hpp"

#include <algorithm>
#include <limits>

#include "harness/planner/worker_threads.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

/// Candidates that are simulated side by side, whatever the number of cores.
constexpr std::size_t side_by_side = 4;
/// A closed form may be that share of the played schedule above it.
constexpr double closed_form_slack = 0.97;
/// A class that was never simulated may be that much faster than played.
constexpr double unseen_ratio = 0.98;
/// Candidates expected to be up to that much slower than the best are looked at, but so many at most.
constexpr double margin = 1.02;
constexpr std::size_t most_spare_looks = 12;

}  // namespace

PlanSearch::Class PlanSearch::class_of(Candidate const& c) {
  return {c.schedule, c.zero_stage, c.tp_overlap, c.pp, c.micro_batch};
}

bool PlanSearch::later(Played const& a, Played const& b) {
  return std::tie(a.expected_ms, a.number) > std::tie(b.expected_ms, b.number);
}

double PlanSearch::expected_ms(ScreenedPoint const& s) const {
  if (auto const known = ratio_.find(class_of(s.candidate)); known != ratio_.end())
    return s.cost.step_ms * known->second;
  auto const kind = kind_ratio_.find({s.candidate.schedule, s.candidate.zero_stage});
  return s.cost.step_ms * (kind == kind_ratio_.end() ? unseen_ratio : std::min(kind->second, 1.0));
}

void PlanSearch::play_until_sure() {
  double const slack = closed_form_slack * std::min(least_ratio_, unseen_ratio);
  // What cannot be as fast as is enough needs no closer look.
  double const limit = options_.enough_ms > 0 ? options_.enough_ms : std::numeric_limits<double>::infinity();
  while (next_ < candidates_.size() && slack * candidates_[next_].cost.step_ms <= limit &&
         (played_.empty() || slack * candidates_[next_].cost.step_ms < played_.front().expected_ms)) {
    Played one{candidates_[next_], next_, 0};
    ++next_;
    one.point.cost.step_ms = coster_.played_ms(one.point.candidate);
    one.expected_ms = expected_ms(one.point);
    played_.push_back(one);
    std::ranges::push_heap(played_, later);
  }
}

/// The same cut with another ZeRO stage and no other time is no other answer: the first, least sharded one stays.
bool PlanSearch::has_twin(ScreenedPoint const& s) const {
  return std::ranges::any_of(looked_, [&](ScreenedPoint const& other) {
    Candidate c = s.candidate;
    c.zero_stage = other.candidate.zero_stage;
    return other.cost.step_ms == s.cost.step_ms && c == other.candidate;
  });
}

std::vector<ScreenedPoint> PlanSearch::take_fastest(double best_ms, PlanResult const& result) {
  std::vector<ScreenedPoint> taken;
  bool const enough = result.best.size() >= std::max(options_.top, options_.simulated);
  while (taken.size() < side_by_side) {
    play_until_sure();
    if (played_.empty()) break;
    double const expected = played_.front().expected_ms;
    if (options_.enough_ms > 0 && expected > options_.enough_ms) break;
    if (enough && expected > best_ms) {
      if (expected > margin * best_ms || spare_looks_ == most_spare_looks) break;
      ++spare_looks_;
    }
    std::ranges::pop_heap(played_, later);
    ScreenedPoint const one = played_.back().point;
    played_.pop_back();
    if (has_twin(one)) continue;
    looked_.push_back(one);
    taken.push_back(one);
  }
  return taken;
}

std::vector<PlanSearch::Look> PlanSearch::simulate(std::vector<ScreenedPoint> const& now) const {
  std::vector<Look> looks(now.size());
  for_each_of(
      now.size(),
      [&](std::size_t k, CostModel const& mine) {
        try {
          looks[k].point = look_closer(request_, mine, now[k].candidate);
          looks[k].point->screened = now[k].cost;
        } catch (IllegalConfig const& refusal) {  // a rule of the whole program that its layers alone do not show
          looks[k].problem = refusal.what();
        }
      },
      model_);
  return looks;
}

void PlanSearch::learn(ScreenedPoint const& s, double simulated_ms) {
  double const ratio = simulated_ms / s.cost.step_ms;
  auto const lower = [&](auto& ratios, auto const& key) {
    auto const [at, fresh] = ratios.try_emplace(key, ratio);
    if (!fresh) at->second = std::min(at->second, ratio);
  };
  lower(ratio_, class_of(s.candidate));
  lower(kind_ratio_, std::pair{s.candidate.schedule, s.candidate.zero_stage});
  least_ratio_ = std::min(least_ratio_, ratio);
}

void PlanSearch::run(std::vector<ScreenedPoint> candidates, PlanResult& result) {
  candidates_ = std::move(candidates);
  double const allowed = allowed_bytes(model_, options_.memory_share);
  double best_ms = std::numeric_limits<double>::infinity();
  for (;;) {
    std::vector<ScreenedPoint> const now = take_fastest(best_ms, result);
    if (now.empty()) return;
    result.looks += now.size();
    std::vector<Look> looks = simulate(now);
    for (std::size_t k = 0; k < now.size(); ++k) {
      if (!looks[k].point) {
        ++result.no_program;
        if (result.problem.empty()) result.problem = looks[k].problem;
        continue;
      }
      PlannedPoint& point = *looks[k].point;
      learn(now[k], point.step_ms);
      if (point.memory.needed_bytes > allowed) continue;
      best_ms = std::min(best_ms, point.step_ms);
      result.best.push_back(std::move(point));
    }
    if (best_ms <= options_.enough_ms) return;
    for (Played& one : played_) one.expected_ms = expected_ms(one.point);
    std::ranges::make_heap(played_, later);
  }
}

}  // namespace shardbench
