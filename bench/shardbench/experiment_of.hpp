#pragma once
#include "bench/shardbench/command_table.hpp"
#include "harness/config/experiment.hpp"

namespace shardbench {

/// The experiment of the command line, resolved. Throws InputError.
Experiment resolved_experiment(Arguments const& arguments);

/// What is legal and hardly meant, on standard error.
void print_warnings(Experiment const& experiment);

}  // namespace shardbench
