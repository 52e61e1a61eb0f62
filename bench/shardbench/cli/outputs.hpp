#pragma once
#include <string>
#include <vector>

#include "harness/report/report_row.hpp"

namespace shardbench {

/// "out.csv" -> "out_ops.csv".
std::string ops_path(std::string const& path);

/// Throws InputError unless rows can be appended to both files; an empty path is no file.
void check_outputs(std::string const& path);

/// Throws InputError unless a file can be made or overwritten at `path`: not one that holds rows, nor one that rows are
/// about to go to (`out` and its operations).
void check_text_file(std::string const& flag, std::string const& path, std::string const& out = {});

/// Makes or overwrites the file. Throws Error when it is not written whole.
void write_text_file(std::string const& path, std::string const& text);

/// Appends the rows of operations, then the row; an empty path is no file.
void append_result(std::string const& path, ReportRow const& row, std::vector<OpsRow> const& ops);

/// A name no other run has.
std::string new_run_id();

/// A row with the columns that every row has: configuration, command, run_id. `resolved`: its model is known.
ReportRow start_row(Experiment const& experiment, Source source);

}  // namespace shardbench
