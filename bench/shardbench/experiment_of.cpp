#include "bench/shardbench/experiment_of.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "harness/sharding/strategy.hpp"

namespace shardbench {

Experiment resolved_experiment(Arguments const& arguments) {
  Experiment e;
  for (auto const& [flag, text] : arguments.fields) set_field(e, flag, text);
  resolve(e);
  // Here, where one process speaks: the ranks of a job would each refuse it in their own words.
  if (!e.parallel.strategy.empty()) static_cast<void>(read_strategy(e.parallel.strategy));
  return e;
}

void print_warnings(Experiment const& experiment) {
  for (std::string const& line : warnings(experiment)) fmt::print(stderr, "shardbench: warning: {}\n", line);
}

}  // namespace shardbench
