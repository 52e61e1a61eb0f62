#pragma once
#include <vector>

#include "harness/program/step_program.hpp"

namespace shardbench {

/// Copies forward ops of the layers that recompute in front of each layer's backward: the tensors they write are then
/// temporaries of the backward pass and need no slot from the forward. Tensor-parallel collectives are repeated too.
void add_recompute(StepProgram& program, Cut const& cut, Chunk const& chunk, std::vector<Op> const& forward,
                   std::vector<Op>& backward);

}  // namespace shardbench
