#pragma once
#include "bench/shardbench/cli/command_table.hpp"
#include "harness/config/experiment.hpp"

namespace shardbench {

/// The experiment of the command line, resolved. Throws InputError.
Experiment resolved_experiment(Arguments const& arguments);

/// Says on standard error which model is taken where none was given.
void note_default_model(Experiment const& experiment);

/// The flags of executions that a replay of one rank a stage cannot honour. Throws InputError.
void refuse_flags_of_runs(Experiment const& experiment);

/// note_default_model, and what is legal and hardly meant, on standard error.
void print_warnings(Experiment const& experiment);

}  // namespace shardbench
