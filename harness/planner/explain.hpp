#pragma once
#include <optional>
#include <string>
#include <vector>

#include "harness/planner/plan.hpp"

namespace shardbench {

/// A part of a step, milliseconds (mean over stages).
struct StepPart {
  std::string name;
  double ms = 0;
};

/// Where a simulated step goes: compute, optimizer, communication waited for by axis, bubble, other idle time.
std::vector<StepPart> step_parts(Prediction const& step);

/// What `other` takes more (positive) or less of than `best`, largest first; parts that differ by under 0.1% of the
/// step are left out.
std::vector<StepPart> part_differences(Prediction const& best, Prediction const& other);

/// A layer that alone, with all its states and the activations of one sample, is more than a device may hold.
struct OversizedLayer {
  std::string piece;         ///< "layer", "dense layer", "expert layer"
  double parameters = 0;     ///< of one layer, uncut
  double bytes = 0;          ///< it needs uncut
  std::int64_t tp = 0;       ///< least tensor-parallel degree with which it fits, 0: none
  double bytes_with_tp = 0;  ///< it needs so
  std::int64_t ep = 0;       ///< least expert-parallel degree with which it fits, 0: none or no experts
};

/// Each kind of layer that does not fit on one device uncut; empty when all do.
std::vector<OversizedLayer> oversized_layers(PlanRequest const& request, CostModel const& model, double allowed_bytes);

/// A candidate and what it needs by the closed forms.
struct SmallCandidate {
  Candidate candidate;
  double needed_bytes = 0;
};

/// Of each ZeRO stage, with a pipeline and without, the candidate that needs least memory, among those that give up
/// speed for it; smallest first. Some may have no program.
std::vector<SmallCandidate> smallest_in_memory(PlanRequest const& request, CostModel const& model);

/// The first of these that fits by the closed forms and by the liveness walk over its program; nothing when none does.
std::optional<PlannedPoint> smallest_that_fits(PlanRequest const& request, CostModel const& model,
                                               double allowed_bytes);

}  // namespace shardbench
