#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "harness/planner/plan.hpp"

namespace shardbench {

/// What the planner shall make small: time of a step, device time of a token, money, memory, devices, latency of a
/// request.
enum class Objective : std::uint8_t { step_time, tokens_per_gpu_hour, cost, memory, gpus, latency, size_ };
std::string_view to_string(Objective objective);
/// "step-time", ... Throws InputError listing them.
Objective parse_objective(std::string_view text);

/// What one planned point takes: everything in it is better when smaller.
struct PlanScore {
  double time_ms = 0, memory_bytes = 0;
  double cost = 0;  ///< of the same work, in whatever unit, alike for all points that are compared
};

/// For each point, whether no other is as good in everything and better in something.
std::vector<bool> pareto_front(std::span<PlanScore const> points);

/// The front of time and memory of all candidates it has seen, by the closed forms; one device count, so that cost goes
/// with time. Equals keep the one seen first.
class ScreenedFront {
 public:
  void add(Candidate const& candidate, PlanCost const& cost);
  /// Fastest first, each smaller than the one before.
  std::vector<ScreenedPoint> points() const;

 private:
  std::map<double, ScreenedPoint> by_time_;
};

/// What was simulated and fits, in short.
struct SimulatedPoint {
  Candidate candidate;
  PlanScore score;
};

/// A plan with what the objective needs beyond the fastest.
struct ObjectivePlan {
  PlanResult result;  ///< best: in order of the objective
  /// Of time and memory, of everything simulated, fastest first, each smaller than the one before; only when asked for.
  std::vector<PlannedPoint> front;
  std::vector<SimulatedPoint> simulated;  ///< whatever it was simulated for
  /// The fastest that cuts the model, where the best only cuts the data.
  std::optional<PlannedPoint> fastest_model_cut;
};

/// plan() under an objective: memory orders the small end of the front by memory, every other by time, since the device
/// count is one. `with_front`: the front of all that was simulated, for which up to eight points of the screened front
/// and those of the memory objective are simulated too. Errors as plan().
ObjectivePlan plan_for(PlanRequest const& request, CostModel const& model, PlanOptions options, Objective objective,
                       bool with_front);

}  // namespace shardbench
