#pragma once
#include "bench/shardbench/plan/plan_text.hpp"
#include "harness/report/report_row.hpp"

namespace shardbench {

/// What a report of a plan shows beyond its rows.
struct PlannedFacts {
  ReportFacts facts;
  std::vector<OpsRow> ops;  ///< of the best
};

/// Timeline, memory and operations of the best of a plan, and what changes would bring. `rows`: the plan's.
PlannedFacts planned_facts(PlanInput const& input, CountPlan const& plan, CostModel const& model,
                           std::vector<ReportRow> const& rows);

}  // namespace shardbench
