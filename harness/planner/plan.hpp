#pragma once
#include <functional>
#include <string>
#include <vector>

#include "harness/planner/plan_cost.hpp"
#include "harness/simulate/predict.hpp"

namespace shardbench {

/// A candidate and its closed forms.
struct ScreenedPoint {
  Candidate candidate;
  PlanCost cost;
};

/// Bytes of a device that may be planned for. `share`: of its memory.
double allowed_bytes(CostModel const& model, double share);

/// A candidate that was looked at closely.
struct PlannedPoint {
  Candidate candidate;
  Experiment experiment;  ///< resolved: what `run` and `simulate` take
  PlanCost screened;      ///< by the closed forms; its step by the schedule played by itself, where that was looked at
  double step_ms = 0;     ///< by the event simulation
  Prediction prediction;  ///< the simulated step, without its spans
  MemoryFit memory;       ///< by the liveness walk
  /// How far the screening is from the simulation, as a share of it.
  double screening_error() const { return step_ms > 0 ? screened.step_ms / step_ms - 1 : 0; }
};

/// The answer to a request.
struct PlanResult {
  SpaceCount space;
  std::int64_t costed = 0;           ///< legal and with a program: costed by the closed forms
  std::int64_t too_big = 0;          ///< of these, more memory than allowed
  std::int64_t left_out = 0;         ///< legal, not costed: larger micro-batches that cannot fit or win (screen.hpp)
  double screened_ms = 0;            ///< of the fastest that fits by the closed forms, 0 when none does
  std::size_t looks = 0;             ///< candidates that were simulated
  std::int64_t no_program = 0;       ///< legal, but nothing lowers it
  std::size_t layer_keys = 0;        ///< different layer costs that were needed
  std::string problem;               ///< why the first of these has none, where a closer look found it
  double least_memory_bytes = 0;     ///< of the smallest candidate, fits or not
  Candidate smallest;                ///< that candidate
  std::vector<PlannedPoint> best;    ///< fastest first; empty when nothing fits
  std::vector<PlannedPoint> slower;  ///< simulated and fit too, beyond the answer's length
};

struct PlanOptions {
  std::size_t top = 5;      ///< points in the answer
  double memory_share = 1;  ///< of the device's memory that may be planned for
  /// Sees every candidate that fits by the closed forms, in the order of the enumeration; may be empty.
  std::function<void(Candidate const&, PlanCost const&)> watch = {};
  std::size_t simulated = 12;  ///< candidates that are simulated at least, those expected to be fastest first
  double enough_ms = 0;        ///< not 0: only whether a step is that fast matters, the first found ends the search
};

/// Tries the whole space, keeps what fits in memory, simulates the fastest and orders them by simulated time. The same
/// request gives the same answer. Throws InputError when the space is empty, naming the demands.
PlanResult plan(PlanRequest const& request, CostModel const& model, PlanOptions const& options = {});
/// The same with a coster of the same base and cost model, which keeps what it learns for other device counts.
PlanResult plan(PlanRequest const& request, CostModel const& model, PlanOptions const& options, PlanCoster& coster);

/// Simulates one candidate. Throws IllegalConfig when it has no program.
PlannedPoint look_closer(PlanRequest const& request, CostModel const& model, Candidate const& candidate);

}  // namespace shardbench
