#pragma once
#include <string>
#include <vector>

#include "bench/shardbench/cli/command_table.hpp"
#include "harness/config/experiment.hpp"

namespace shardbench {

/// One configuration of a sweep.
struct SweepPoint {
  Experiment experiment;  ///< resolved as far as it is legal
  std::string skipped;    ///< why it can not run, with the legal values; empty when it can
  std::string name;       ///< the values that vary: "dp 2, tp 4"
  std::string command;    ///< as in the row
};

/// The points of comma lists and --spec, in order as given. Throws InputError.
std::vector<SweepPoint> sweep_points(Arguments const& arguments);

/// One line for the worker; point_of_line() reads it back and resolves it.
std::string line_of_point(std::size_t index, Experiment const& experiment);
/// Throws InputError for anything else than such a line.
std::pair<std::size_t, Experiment> point_of_line(std::string const& line);

}  // namespace shardbench
