#pragma once
#include <vector>

#include "harness/program/graph/tape.hpp"

namespace shardbench {

/// The ops before the optimizer that clip gradients by their global norm: every rank adds up the squares of what it
/// alone speaks for (each element of the model once, padding never), the sums meet over all axes, and the factor is
/// what the optimizer multiplies gradients by. Empty, and nothing changes, without `clip_grad`.
std::vector<Op> clip_ops(Tape& tape);

/// Ranges [begin, end) of a bucket's elements that this rank speaks for in the norm, ascending.
std::vector<std::pair<std::int64_t, std::int64_t>> counted_ranges(StepProgram const& program, Bucket const& bucket);

}  // namespace shardbench
