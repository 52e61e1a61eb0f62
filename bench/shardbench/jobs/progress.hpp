#pragma once
#include <chrono>
#include <cstdio>
#include <string>

#include "bench/shardbench/jobs/point_outcome.hpp"

namespace shardbench {

/// Tells how far a sweep is: a bar with the remaining time on a terminal, a line a point elsewhere.
class Progress {
 public:
  Progress(std::FILE* stream, std::size_t points);
  void begin(std::string const& name);
  void end(std::string const& name, PointOutcome const& outcome);
  /// Leaves the bar's line.
  void finish();

 private:
  void draw(std::string const& name);

  std::FILE* stream_;
  bool terminal_;
  std::size_t points_, done_ = 0;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace shardbench
