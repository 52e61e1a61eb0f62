#pragma once
#include "harness/program/graph/tape.hpp"

namespace shardbench {

/// x as experts take it: with one copy of the experts per tensor-parallel group, its ranks share the tokens.
Value moe_input(Tape& t, Value x);
/// Expert MLP over moe_input: router, permute, dispatch, experts, combine. In the layout of its input.
Value moe(Tape& t, Value x);

}  // namespace shardbench
