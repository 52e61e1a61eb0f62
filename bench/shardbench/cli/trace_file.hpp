#pragma once
#include <string>
#include <vector>

#include "harness/program/step_program.hpp"
#include "harness/record/timeline.hpp"

namespace shardbench {

/// The spans of a rank as events of Chrome's trace format, separated by commas: process = rank, thread = lane.
std::string trace_events(int rank, StepProgram const& program, std::vector<Span> const& spans);

/// A whole trace of every rank's events. Throws InputError when it cannot be written.
void write_trace(std::string const& path, std::vector<std::string> const& events_by_rank);

}  // namespace shardbench
