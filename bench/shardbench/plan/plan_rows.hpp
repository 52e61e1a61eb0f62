#pragma once
#include <string>
#include <vector>

#include "bench/shardbench/plan/plan_input.hpp"
#include "harness/report/report_row.hpp"

namespace shardbench {

/// What the training run of --tokens comes to with a planned step. All 0 without --tokens.
struct RunCost {
  Goodput goodput;
  TrainingBudget training;
};
RunCost run_cost(PlanInput const& input, Experiment const& experiment, double step_ms);

/// "shardbench simulate ..." and "shardbench run ..." of a planned experiment.
std::string simulate_command_of(PlanInput const& input, Experiment const& experiment);
std::string run_command_of(Experiment const& experiment);

/// A row of source `planned`, with the commands and flags that mean the same.
ReportRow planned_row(PlanInput const& input, CostModel const& model, PlannedPoint const& point);

/// The rows of a served point: its prompt and its decoded token.
std::vector<ReportRow> served_rows(PlanInput const& input, CostModel const& model, ServedPoint const& point);

/// Marks the rows that no other beats in step time, memory and device time of a token (cost of the run where known).
void mark_front(std::vector<ReportRow>& rows);

}  // namespace shardbench
