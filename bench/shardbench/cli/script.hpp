#pragma once
#include <string>
#include <vector>

namespace shardbench {

/// A script of the house and the python3 that runs it.
struct Script {
  std::string python, path;
};

/// A script beside the installed program, or in the sources it was built from. Throws InputError, which names `what`
/// needs it, where it or python3 are missing.
Script find_script(std::string const& name, std::string const& what);

/// Its standard output. Throws InputError with what it said where it ends in another way than well.
std::string run_script(Script const& script, std::vector<std::string> const& words, std::string const& what);

}  // namespace shardbench
