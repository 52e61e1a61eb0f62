#pragma once
#include <vector>

#include "harness/program/graph/tape.hpp"

namespace shardbench {

/// Whether ranks keep a part of each weight only (ZeRO-3), gathering it for use.
bool weights_are_sharded(Experiment const& experiment);

/// Sorts the chunk's parameters (from `first_parameter` on) into buckets in the order their gradients become final,
/// lays each bucket out contiguously, and inserts its reduction behind its last gradient, in the last microbatch. Where
/// each microbatch's gradients are cut, adding the last cut to its shard is a segment of its own. `splits_backward`:
/// the schedule runs the parts of a backward pass apart.
void add_buckets(StepProgram& program, Tape& builder, Experiment const& experiment, std::int32_t chunk,
                 ParameterId first_parameter, bool splits_backward, std::vector<Op>& backward);

/// Segments that gather, reduce, add and free a chunk's parameters when they are sharded over dp (ZeRO-3).
void add_shard_segments(StepProgram& program, Tape& builder, std::int32_t chunk);

/// A segment in which the copies of a weight on different stages agree on their gradient (tied embeddings, DualPipe's
/// second copies); none is added when there are no copies.
void add_copy_reductions(StepProgram& program, Tape& builder);

/// The optimizer: every bucket is updated, those that are sharded are gathered again.
std::vector<Op> optimizer_ops(StepProgram& program, Tape& builder);

}  // namespace shardbench
