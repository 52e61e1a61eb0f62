#pragma once
#include <optional>

#include "harness/evaluate/step_totals.hpp"

namespace shardbench {

/// What `describe` found out.
struct Description {
  Experiment experiment;  ///< resolved
  ParameterCount parameters;
  std::optional<StepTotals> totals;  ///< empty when the model has no lowering
  std::string not_counted;           ///< why, one line
};

/// An object with `parameters` as an exact integer; what was not counted is null.
std::string description_json(Description const& description);

}  // namespace shardbench
