#pragma once
#include <optional>
#include <string>
#include <vector>

#include "bench/shardbench/cli/command_table.hpp"
#include "bench/shardbench/jobs/run_point.hpp"

namespace shardbench {

/// What a replay takes its communication from.
struct ReplayOptions {
  std::string system, stack = "ours";
  /// The flags that ask for it.
  std::vector<std::string> words() const { return {"--source", "replayed", "--system", system, "--stack", stack}; }
};

/// What --source, --system and --stack ask for; nothing for a measurement. Throws InputError for flags that do not go
/// together.
std::optional<ReplayOptions> replay_options(Arguments const& arguments);

/// Runs one rank of each stage of a resolved experiment on this process's device, communication left out, and plays the
/// step with the times found and the system's network: a row with source=replayed. Throws IllegalConfig, OutOfMemory,
/// InputError.
PointResult replay_point(Job& job, Experiment const& experiment, ReplayOptions const& options);

}  // namespace shardbench
