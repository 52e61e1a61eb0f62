#pragma once
#include <string>
#include <utility>
#include <vector>

namespace shardbench {

/// What the variables in force spoil, a line each that names the variable, its value and what to do. `nvlinks`: active
/// ones of a GPU here, 0 or less where there are none or nobody can tell.
std::vector<std::string> environment_warnings(std::vector<std::pair<std::string, std::string>> const& variables,
                                              int nvlinks);

}  // namespace shardbench
