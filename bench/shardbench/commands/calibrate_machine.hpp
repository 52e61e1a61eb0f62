#pragma once
#include "bench/shardbench/cli/command_table.hpp"

namespace shardbench {

/// Measures the machine that this job runs on and writes its profile to --out. Collective. Returns the exit code.
int calibrate_machine(Arguments const& arguments);

}  // namespace shardbench
