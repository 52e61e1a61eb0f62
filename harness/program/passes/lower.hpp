#pragma once
#include <atomic>
#include <vector>

#include "harness/config/experiment.hpp"
#include "harness/program/step_program.hpp"

namespace shardbench {

/// Programs that this process has lowered: what a command is held to is one a stage.
inline std::atomic<std::int64_t> programs_lowered{0};

/// What `rank` does in one step of a resolved experiment. Pure; equal inputs give equal programs.
/// Throws IllegalConfig for cuts and architectures that have no lowering, in one line.
StepProgram lower(Experiment const& experiment, std::int64_t rank);

/// One program a pipeline stage, of its representative rank: what lower() makes of each, for the price of one schedule.
std::vector<StepProgram> lower_stages(Experiment const& experiment);

/// The same experiment without any cut: one rank, the same global batch and the same microbatch of samples.
Experiment unsharded(Experiment const& experiment);
/// Whether the experiment is that already, so that comparing the two would be comparing a step with itself.
bool is_unsharded(Experiment const& experiment);

}  // namespace shardbench
