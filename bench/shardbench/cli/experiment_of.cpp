#include "bench/shardbench/cli/experiment_of.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "harness/config/knob.hpp"
#include "harness/sharding/strategy.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

Experiment resolved_experiment(Arguments const& arguments) {
  Experiment e;
  for (auto const& [flag, text] : arguments.fields) set_field(e, flag, text);
  resolve(e);
  // Here, where one process speaks: the ranks of a job would each refuse it in their own words.
  if (!e.strategy.empty()) static_cast<void>(read_strategy(e.strategy));
  return e;
}

void note_default_model(Experiment const& experiment) {
  if (!experiment.given.contains("model"))
    fmt::print(stderr, "shardbench: note: no --model given: {}\n", experiment.model_name);
}

void print_warnings(Experiment const& experiment) {
  note_default_model(experiment);
  for (std::string const& line : warnings(experiment)) fmt::print(stderr, "shardbench: note: {}\n", line);
}

void refuse_flags_of_runs(Experiment const& experiment) {
  for (Knob const& knob : knobs())
    if (knob.together && experiment.given.contains(knob.flag))
      throw InputError(fmt::format("--{}: {} given; not with --source replayed, whose ranks never run together",
                                   knob.flag, knob.get(experiment)));
}

}  // namespace shardbench
