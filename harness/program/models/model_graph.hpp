#pragma once
#include "harness/program/graph/graph_builder.hpp"

namespace shardbench {

/// Builds the forward ops of one chunk of the model (embedding, blocks, head and loss, as the chunk has them) on the
/// builder's tape. Throws IllegalConfig for an architecture that has no lowering, naming the part.
void build_chunk(GraphBuilder& builder, Experiment const& experiment, StepProgram const& program, Chunk const& chunk);

/// What of the model has no lowering yet, in one line; empty when all of it has.
std::string unsupported_part(ModelConfig const& model);

}  // namespace shardbench
