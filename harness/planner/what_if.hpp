#pragma once
#include <optional>
#include <string>
#include <vector>

#include "harness/planner/plan.hpp"

namespace shardbench {

/// What a change would make of the best configuration.
struct WhatIf {
  std::string change;                     ///< "twice the bandwidth of rail-ndr400", "tp 16, dp 8"
  double same_cut_ms = 0;                 ///< the same cut (or the changed one), simulated, 0 when it cannot be
  std::string problem;                    ///< why not, or what it needs too much of
  std::optional<PlannedPoint> replanned;  ///< the best cut after a change of hardware
};

/// Changes of hardware, each simulated with the best cut and planned again: twice the bandwidth of each network level
/// and of all, of the device's memory, twice the memory, and the next device where one ships.
std::vector<WhatIf> hardware_what_ifs(PlanRequest const& request, CostModel const& model, PlannedPoint const& best,
                                      PlanOptions const& options);

/// One knob of the cut turned by one step, each simulated: tp, pp, cp, micro-batch, ZeRO, recompute, schedule.
std::vector<WhatIf> cut_what_ifs(PlanRequest const& request, CostModel const& model, PlannedPoint const& best,
                                 PlanOptions const& options);

/// The shipped system of the next generation; empty when there is none.
std::string next_system(std::string_view name);

}  // namespace shardbench
