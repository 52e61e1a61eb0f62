#pragma once
#include <filesystem>

#include "harness/config/experiment.hpp"
#include "harness/exec/runner.hpp"

namespace shardbench {

/// Runs the first step and writes what it starts from and gives, as safetensors under the names of the model's
/// checkpoint (stored_part), each tensor whole whatever the cut: weights, gradients, updated_weights, and logits
/// [samples, positions, outputs]; a detector's outputs [samples, cells, channels] in place of logits. Inference writes
/// weights, the logits of the last position [samples, vocab] and next_tokens.json. Collective; rank 0 writes into
/// `folder`, which is made. `unsharded` names the tensors.
void dump_step(Runner& runner, Experiment const& experiment, Communicator& world, StepProgram const& unsharded,
               std::filesystem::path const& folder);

/// Why this experiment cannot be dumped; empty when it can.
std::string dump_problem(Experiment const& experiment);

}  // namespace shardbench
