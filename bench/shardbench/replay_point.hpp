#pragma once
#include <string>

#include "bench/shardbench/run_point.hpp"

namespace shardbench {

/// Runs one rank of each stage of a resolved experiment on this process's device, communication left out, and plays the
/// step with the times found and the system's network: a row with source=replayed. Throws IllegalConfig, OutOfMemory,
/// InputError.
PointResult replay_point(Job& job, Experiment const& experiment, std::string const& system, std::string const& stack);

}  // namespace shardbench
