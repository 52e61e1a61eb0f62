#pragma once
#include "harness/program/graph/residual.hpp"

namespace shardbench {

/// Builds one block of a language model as the tape's layer `layer`: attention and MLP (or experts), one after the
/// other or side by side, with the norms that its family has. What is left to add to the residual stream becomes
/// `residual.pending`.
void build_block(Tape& tape, std::int64_t layer, Residual& residual);

}  // namespace shardbench
