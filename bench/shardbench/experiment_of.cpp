#include "bench/shardbench/experiment_of.hpp"

#include <fmt/format.h>

#include <cstdio>

namespace shardbench {

Experiment resolved_experiment(Arguments const& arguments) {
  Experiment e;
  for (auto const& [flag, text] : arguments.fields) set_field(e, flag, text);
  resolve(e);
  return e;
}

void print_warnings(Experiment const& experiment) {
  for (std::string const& line : warnings(experiment)) fmt::print(stderr, "shardbench: warning: {}\n", line);
}

}  // namespace shardbench
