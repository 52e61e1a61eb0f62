#pragma once
#include <vector>

#include "harness/program/graph/tape.hpp"

namespace shardbench {

/// Whether ranks keep a part of each weight only (ZeRO-3), gathering it for use.
bool weights_are_sharded(Experiment const& experiment);

/// Elements of a bucket that has its parameters one behind the other, each begun aligned.
std::int64_t padded_elements(StepProgram const& program, Bucket const& bucket);
/// Puts the parameters, and their gradients where there are any, into the bucket's tensors in that order.
void place_parameters(StepProgram& program, Bucket const& bucket, BucketId index);

/// Sorts the chunk's parameters (from `first_parameter` on) into buckets in the order their gradients become final,
/// lays each bucket out contiguously, and inserts its reduction behind its last gradient, in the last microbatch. Where
/// each microbatch's gradients are cut, adding the last cut to its shard is a segment of its own. `splits_backward`:
/// the schedule runs the parts of a backward pass apart.
void add_buckets(Tape& tape, std::int32_t chunk, ParameterId first_parameter, bool splits_backward,
                 std::vector<Op>& backward);

/// Segments that gather, reduce, add and free a chunk's parameters when they are sharded over dp (ZeRO-3).
void add_shard_segments(Tape& tape, std::int32_t chunk);

/// A segment in which the copies of a weight on different stages agree on their gradient (tied embeddings, DualPipe's
/// second copies); none is added when there are no copies.
void add_copy_reductions(Tape& tape);

/// The optimizer: every bucket is updated, those that are sharded are gathered again.
std::vector<Op> optimizer_ops(Tape& tape);

}  // namespace shardbench
