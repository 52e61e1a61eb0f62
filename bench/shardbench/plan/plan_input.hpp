#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "bench/shardbench/cli/command_table.hpp"
#include "bench/shardbench/cli/report_page.hpp"
#include "harness/planner/demands.hpp"
#include "harness/planner/goodput.hpp"
#include "harness/planner/objective.hpp"
#include "harness/planner/serve_plan.hpp"

namespace shardbench {

/// A training run to be budgeted; tokens 0: no run.
struct RunBudget {
  double tokens = 0, deadline_days = 0;  ///< deadline 0: none
  FailureModel failures;
  double price_per_device_hour = 0;  ///< 0: not given
};

/// The command line of `plan`, understood.
struct PlanInput {
  std::string system, stack, out;
  bool json = false, what_if = false, pareto = false;
  Experiment base;  ///< model, seq, batch, precision
  PlanDemands demands;
  PlanOptions options;
  Objective objective = Objective::step_time;
  std::vector<std::int64_t> counts;  ///< of devices, ascending
  bool search = false;               ///< for the fewest devices, from the first count to the last
  RunBudget budget;
  bool serving = false;
  std::int64_t sequences = 0;  ///< decoded at once, 0: searched
  double ttft_limit_ms = 0, tpot_limit_ms = 0;
  ReportPage page;
};

/// Throws InputError naming the flag, the value and what is allowed. `model`: of --system and --stack.
PlanInput read_plan_input(Arguments const& arguments, CostModel const& model);

/// The cost model of --system and --stack. Throws InputError.
CostModel plan_cost_model(Arguments const& arguments);

}  // namespace shardbench
