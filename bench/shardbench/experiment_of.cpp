#include "bench/shardbench/experiment_of.hpp"

namespace shardbench {

Experiment resolved_experiment(Arguments const& arguments) {
  Experiment e;
  for (auto const& [flag, text] : arguments.fields) set_field(e, flag, text);
  resolve(e);
  return e;
}

}  // namespace shardbench
