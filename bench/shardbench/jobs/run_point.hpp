#pragma once
#include <vector>

#include "bench/shardbench/jobs/job.hpp"
#include "harness/exec/measure.hpp"
#include "harness/exec/runner.hpp"
#include "harness/report/report_row.hpp"

namespace shardbench {

/// What a configuration left behind on this rank.
struct PointResult {
  ReportRow row;
  std::vector<OpsRow> ops;   ///< of this rank
  std::string trace_events;  ///< of this rank, when asked for
  std::string stage_fact;    ///< this rank's part of a report's timeline, where asked for
};

/// Throws IllegalConfig for a resolved experiment that has no step to execute, or, with check, none to compare with:
/// what the ranks of a job would find themselves.
void check_programs(Experiment const& experiment);

/// Runs and measures a resolved experiment over the job, having written its first step into the folder `dump` where that
/// is named. Collective. Throws IllegalConfig and OutOfMemory on all ranks
/// alike; anything else leaves the ranks apart and must end the job.
PointResult run_point(Job& job, Experiment const& experiment, bool trace, std::string const& dump = {});

}  // namespace shardbench
