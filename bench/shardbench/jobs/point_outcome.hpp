#pragma once
#include <optional>
#include <string>

#include "harness/report/report_row.hpp"

namespace shardbench {

/// What the table at the end of a sweep says of a point.
struct PointOutcome {
  Outcome outcome = Outcome::failed;
  /// rate_per_s: of tokens, or of images where a model takes those.
  std::optional<double> step_ms, rate_per_s, compute_ms, exposed_ms, idle_ms, max_rel_error;
  std::string reason;
};

PointOutcome outcome_of(ReportRow const& row);

/// What a worker says on its standard output: it begins a point, or ends one. `row` is its JSON, when asked for.
struct WorkerMessage {
  std::size_t index = 0;
  bool done = false;
  PointOutcome outcome;
  std::string row;
};
std::string to_line(WorkerMessage const& message);
/// Empty for a line that is no message.
std::optional<WorkerMessage> parse_worker_line(std::string const& line);

}  // namespace shardbench
