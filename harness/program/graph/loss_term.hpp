#pragma once
#include <string>

#include "harness/program/step_program.hpp"

namespace shardbench {

/// One of the losses of a step: their weighted sum is the step's.
struct LossTerm {
  TensorId targets = no_tensor;
  double weight = 1;
  std::string name = "loss";
  bool adds = false;  ///< to the losses before it
};

}  // namespace shardbench
