#pragma once
#include <string>
#include <vector>

#include "bench/shardbench/jobs/job.hpp"
#include "bench/shardbench/jobs/point_outcome.hpp"
#include "bench/shardbench/jobs/replay_point.hpp"

namespace shardbench {

/// The rows of a point that ended, well or not.
struct FinishedPoint {
  ReportRow row;
  std::vector<OpsRow> ops;
};

/// Runs a point over the job; one that is illegal or does not fit becomes a skipped row. Collective. Anything worse
/// ends the whole job, with a line on standard error.
FinishedPoint finish_point(Job& job, Experiment const& experiment, std::optional<ReplayOptions> const& replay = {});

/// The row as a JSON object without line breaks.
std::string json_of(ReportRow const& row);

}  // namespace shardbench
