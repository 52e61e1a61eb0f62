#pragma once
#include <vector>

#include "harness/program/step_program.hpp"

namespace shardbench {

/// Copies forward ops that recomputation repeats into the backward ops: whole layers in front of the layer's backward,
/// stretches of ops (op.stretch) in front of the first op that reads what they make. The tensors they write are then
/// temporaries of the backward pass and need no slot from the forward; where its parts run apart (`apart`) they are
/// tensors of backward's own. Tensor-parallel collectives are repeated too.
void add_recompute(StepProgram& program, Cut const& cut, Chunk const& chunk, std::vector<Op> const& forward,
                   std::vector<Op>& backward, bool apart);

}  // namespace shardbench
