#pragma once
#include <string>

#include "harness/program/graph/tape.hpp"

namespace shardbench {

/// One of the losses of a step: their weighted sum is the step's.
struct LossTerm {
  TensorId targets = no_tensor;
  double weight = 1;
  std::string name = "loss";
  bool adds = false;              ///< to the losses before it
  std::int64_t first_target = 0;  ///< of the rows of the logits
};

/// Vocabulary-parallel cross-entropy into program.loss; `targets_of_sample`: the loss is their mean over the batch.
void loss(Tape& t, Value logits, std::int64_t first_column, std::int64_t targets_of_sample, LossTerm const& term);

}  // namespace shardbench
