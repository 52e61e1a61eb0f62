#pragma once
#include <string>

#include "harness/program/graph/tape.hpp"

namespace shardbench {

/// The residual stream: a value, and the output of a branch that the next norm (or the chunk's end) adds to it.
struct Residual {
  Value base;
  Value pending;
};

/// The chunk's input: received, or given as a buffer when it is the first of a block-only program.
Value chunk_input(Tape& t);
/// Makes `x` the chunk's output in the block layout and names its gradient as the start of the backward pass.
void chunk_output(Tape& t, Value x);

Value add(Tape& t, Value a, Value b);
/// The residual stream at the entry of the blocks: each rank (or residual stream of one rank) goes on with a copy of
/// its own where they are private.
Value enter(Tape& t, Value x);
/// Whether a branch is added to the residual stream by `join` at once, and not by the next norm.
bool joins_at_once(Tape const& t);
/// residual + dropout(branch + its bias), in one pass.
Value join(Tape& t, Value residual, Value branch, std::string const& name);
/// x itself where nothing is dropped.
Value dropout(Tape& t, Value x, std::string const& name);

}  // namespace shardbench
