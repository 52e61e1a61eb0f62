#pragma once
#include "bench/shardbench/plan/plan_input.hpp"

namespace shardbench {

/// The best ways to serve, where the time of the best goes, why the next is worse, and the commands that reproduce it;
/// or what was too big or too slow.
void print_serving(PlanInput const& input, ServeRequest const& request, ServeResult const& result,
                   CostModel const& model);

/// Why no cut serves as asked: which limit or how much memory is missed, and by how much. One line.
std::string why_none(PlanInput const& input, ServeRequest const& request, ServeResult const& result,
                     CostModel const& model);

/// "ttft 500 ms and tpot 20 ms": the limits that were given.
std::string limits_text(PlanInput const& input);

}  // namespace shardbench
