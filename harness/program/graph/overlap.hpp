#pragma once
#include "harness/program/graph/linear.hpp"

namespace shardbench {

// Tensor parallelism whose products and collectives are cut in slices of the tokens, so that the collective of one
// slice runs while the next is computed. The numbers are those of the whole product; only the order of work differs.

/// Whether a product with a weight that is cut so is sliced.
bool overlaps_collective(Tape& t, Value x, LinearSpec const& spec, Placement const& placement);
/// Whether the rows of x are gathered for a weight that is cut so.
bool gathers_rows(Tape& t, Value x, Placement const& placement);
/// The linear layer, with its collectives before or behind it, over x as it comes (or as the product takes it).
Value overlapped_linear(Tape& t, Value x, LinearSpec const& spec, LinearWeights const& w);

}  // namespace shardbench
