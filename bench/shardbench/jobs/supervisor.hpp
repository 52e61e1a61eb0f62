#pragma once
#include <functional>
#include <string>
#include <vector>

#include "bench/shardbench/jobs/point_outcome.hpp"
#include "bench/shardbench/jobs/sweep_points.hpp"

namespace shardbench {

struct SupervisorOptions {
  std::string out;    ///< the CSV that workers append to
  bool json = false;  ///< workers send each row too
  double timeout_seconds = 300;
  std::vector<std::string> mpirun_arguments;
  std::vector<std::string> replay =
      {};  ///< flags of a replay, which takes one process whatever the ranks; empty: measured
};

/// Runs points in worker jobs, one job for all points of a rank count (and of one choice for NCCL) while all goes well;
/// the configuration that crashes or overstays becomes a row, and a new job goes on behind it.
class Supervisor {
 public:
  using Begin = std::function<void(std::size_t index)>;
  using End = std::function<void(std::size_t index, PointOutcome const& outcome, std::string const& row)>;

  Supervisor(std::vector<SweepPoint> const& points, SupervisorOptions options, Begin begin, End end);
  /// Runs the points of these indices; false when it was interrupted. Throws Error when no job can be started at all.
  bool run(std::vector<std::size_t> waiting);

 private:
  /// Runs one job; takes what it finished, or broke on, off `waiting`. False when it was interrupted.
  bool run_job(std::int64_t ranks, std::vector<std::size_t>& waiting);
  void give_up(std::size_t index, Outcome outcome, std::string const& reason);

  std::vector<SweepPoint> const& points_;
  SupervisorOptions options_;
  Begin begin_;
  End end_;
};

}  // namespace shardbench
