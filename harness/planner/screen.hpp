#pragma once
#include <functional>

#include "harness/planner/plan_cost.hpp"

namespace shardbench {

/// What the screening of a space met.
struct ScreenCount {
  SpaceCount space;
  std::int64_t left_out = 0;  ///< legal, but of a micro-batch beyond one that is too big or cannot win
};

/// Costs the candidates of a space by the closed forms, micro-batches in ascending order; `visit` sees each with its
/// cost, nullptr where it has no program. Larger micro-batches of the same tp, cp, ep, etp, sequence parallelism,
/// overlap and recompute are left out, their layers never costed, once
/// - no arrangement of a smaller one fits in `allowed_bytes`: activations of a stage grow with the micro-batch, or
/// - the passes alone take longer than the fastest that fits, or than `limit_ms` where it is not 0, told by what the
///   samples added last to a micro-batch took.
ScreenCount for_each_cost(PlanRequest const& request, PlanCoster& coster, double allowed_bytes,
                          std::function<void(Candidate const&, PlanCost const*)> const& visit, double limit_ms = 0);

}  // namespace shardbench
