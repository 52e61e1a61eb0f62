#pragma once
#include "bench/shardbench/cli/command_table.hpp"

namespace shardbench {

// Each returns the exit code: 0 all rows passed or skipped, 1 a row did not. Throws InputError for exit code 2.
int models_command(Arguments const& arguments);
int systems_command(Arguments const& arguments);
int strategies_command(Arguments const& arguments);
int describe_command(Arguments const& arguments);
int explain_command(Arguments const& arguments);
int import_command(Arguments const& arguments);
int plan_command(Arguments const& arguments);
int schedule_command(Arguments const& arguments);
int simulate_command(Arguments const& arguments);
int run_command(Arguments const& arguments);
int sweep_command(Arguments const& arguments);
int worker_command(Arguments const& arguments);
int compare_command(Arguments const& arguments);
int calibrate_command(Arguments const& arguments);
int doctor_command(Arguments const& arguments);

}  // namespace shardbench
