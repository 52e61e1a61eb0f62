#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace shardbench {

/// How to start ranks of this very program on this machine.
struct Launch {
  std::vector<std::string> words;                              ///< the whole command line, program first
  std::vector<std::pair<std::string, std::string>> variables;  ///< to set where they are not set yet
};

/// `words` after the program's name, on `ranks` ranks through mpirun (directly for one rank). Throws InputError when
/// there is no mpirun.
Launch launch_of(std::int64_t ranks, std::vector<std::string> const& mpirun_arguments,
                 std::vector<std::string> const& words);

/// Sets the variables and becomes the launched program. Throws Error when that fails.
[[noreturn]] void become(Launch const& launch);

/// Path of this executable.
std::string own_path();

/// Full path of a program on PATH, empty when there is none.
std::string find_program(std::string const& name);

/// True unless a launcher's environment says that this is another rank than the first.
bool speaks_for_job();

}  // namespace shardbench
