#pragma once
#include <string>
#include <vector>

#include "bench/shardbench/plan/plan_input.hpp"
#include "harness/planner/device_search.hpp"

namespace shardbench {

/// What planning for one device count came to.
struct CountPlan {
  PlanRequest request;
  ObjectivePlan plan;
};

/// The space and the best configurations for one device count, where the time of the best goes, why the next is slower,
/// the run, and the commands and flags that mean the same; or why nothing fits and what would.
void print_plan(PlanInput const& input, CountPlan const& plan, CostModel const& model);

/// A line a device count, and where the curve bends.
void print_curve(PlanInput const& input, std::vector<CountPlan> const& plans);

/// The device counts that were tried for a demand, of which range, the answer, and what was not tried.
void print_search(PlanInput const& input, DeviceSearch const& search, std::string const& demand,
                  std::string const& time_unit);

/// "  name   12.34 ms   5.6%" a part of a step.
void print_parts(Prediction const& step);

/// "12.3 ms more pipeline bubble, 4.5 ms less compute" behind the words before it: empty when nothing is worth saying.
std::string differences_text(std::string_view before, Prediction const& best, Prediction const& other);

/// "nothing fits" and the changes that would make it fit, the smallest first.
void print_nothing_fits(PlanInput const& input, CountPlan const& plan, CostModel const& model);

/// What a change of one knob or of the hardware would make of the best.
void print_what_ifs(PlanInput const& input, CountPlan const& plan, CostModel const& model);

}  // namespace shardbench
