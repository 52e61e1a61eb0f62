#pragma once
#include <vector>

#include "bench/shardbench/jobs/job.hpp"
#include "harness/evaluate/step_totals.hpp"
#include "harness/exec/measure.hpp"

namespace shardbench {

/// The columns of group "where", and what attention ran.
void set_place(ReportRow& row, Job& job);

/// Times, rates, measured traffic and memory, truth, outcome. The row's experiment and totals are there.
void set_measurement(ReportRow& row, Measurement const& measurement, StepTotals const& totals);

}  // namespace shardbench
