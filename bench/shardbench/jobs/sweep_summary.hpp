#pragma once
#include <optional>
#include <string>
#include <vector>

#include "bench/shardbench/jobs/point_outcome.hpp"
#include "bench/shardbench/jobs/sweep_points.hpp"

namespace shardbench {

using PointOutcomes = std::vector<std::optional<PointOutcome>>;

/// The table at the end of a sweep: a line for each point that ran; empty where none did.
std::vector<std::string> ran_lines(std::vector<SweepPoint> const& points, PointOutcomes const& outcomes);

/// Why points were skipped or went wrong: one line for all points of one kind of reason (the same words, whatever the
/// numbers), with their count and the first of them.
std::vector<std::string> reason_lines(std::vector<SweepPoint> const& points, PointOutcomes const& outcomes);

/// "6 passed, 21 skipped"; empty where no point has an outcome.
std::string outcome_counts(PointOutcomes const& outcomes);

}  // namespace shardbench
