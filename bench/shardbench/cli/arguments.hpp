#pragma once
#include "bench/shardbench/cli/command_table.hpp"

namespace shardbench {

/// What the command line asks for: a command, or a text of help.
struct CommandLine {
  Arguments arguments;
  std::string help;  ///< not empty: print this and stop
};

/// Throws InputError for unknown commands, flags and missing values.
CommandLine parse_command_line(int argc, char const* const* argv);

}  // namespace shardbench
