#pragma once
#include <string>

#include "harness/planner/plan.hpp"

namespace shardbench {

/// "tp 8, pp 16, dp 32, vpp 6, sequence parallel": what differs from one rank.
std::string cut_text(Experiment const& experiment);

/// The space, the best configurations, where the time of the best goes, why the next is slower, and the commands that
/// reproduce it.
void print_plan(PlanRequest const& request, PlanResult const& result, CostModel const& model,
                PlanOptions const& options, std::string const& system, std::string const& stack);

/// Flags of Megatron-LM that mean the same cut.
std::string megatron_flags(Experiment const& experiment);
/// Options of torchtitan that mean the same cut.
std::string torchtitan_flags(Experiment const& experiment);

}  // namespace shardbench
