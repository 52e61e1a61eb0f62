#pragma once
#include "harness/program/graph/tape.hpp"

namespace shardbench {

/// Gradients of fewer bytes than fp32: products write them themselves; what other kernels sum in fp32 is rounded
/// afterwards, and added to the gradient where there is one already.
void narrow_gradients(Tape& tape, std::vector<Op>& backward);

}  // namespace shardbench
