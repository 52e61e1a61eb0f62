#pragma once
#include <string>
#include <vector>

#include "bench/shardbench/cli/command_table.hpp"

namespace shardbench {

/// Prints each log's runs, what is suspicious about them and the fit; with --out, writes the --system whose network has
/// the curves of the runs that could be fitted. Returns 1 when a run's results are wrong, else 0. Throws InputError for
/// a file that is no log.
int report_nccl_logs(Arguments const& arguments);

/// Prints which GPUs are near to each other. Throws InputError for what is no topology matrix.
void report_topologies(std::vector<std::string> const& paths);

}  // namespace shardbench
