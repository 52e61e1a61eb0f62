#pragma once
#include "harness/program/graph/tape.hpp"

namespace shardbench {

/// Builds the forward ops of the tape's chunk of the model: embedding, blocks, head and loss, as the chunk has them.
/// Throws IllegalConfig for an architecture that has no lowering, naming the part.
void build_chunk(Tape& tape);

/// What of the model (`with_head`: with embedding and head) has no lowering yet, in one line; empty when all of it has.
std::string unsupported_part(ModelConfig const& model, bool with_head = true);

}  // namespace shardbench
