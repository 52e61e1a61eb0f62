#pragma once
#include <string>

#include "harness/program/graph/parameters.hpp"
#include "harness/program/graph/tape.hpp"

namespace shardbench {

// Partially synchronised tensor parallelism: where a sum over tp is synchronised only its first channels are reduced,
// the others stay each rank's own. Its unsharded reference is one rank with a residual stream for each of those ranks,
// side by side: a row of the tensor [tokens, streams * cols] is a token's streams one after the other, so that norms
// and attention see streams as samples, and a cut weight is the whole weight with every other stream's part of its
// operand set to zero.

/// Residual streams that lie side by side in a row.
std::int64_t residual_streams(Tape const& t);
/// Whether each rank (or residual stream) has a residual stream of its own between blocks.
bool has_private_blocks(Tape const& t);
/// Throws IllegalConfig where a weight is not cut as private activations need it.
void check_private_cut(Tape const& t, LinearSpec const& spec, Layout const& input);

/// Over ranks: x with its first `synced` channels summed, the others scaled to the deviation of such a sum.
TensorRef sync_channels(Tape& t, Matrix const& x, std::int64_t synced, std::string const& name);

// Over the residual streams of one rank, as values with their backward.
/// A copy of x for each stream.
Value expand_streams(Tape& t, Value x);
/// The sum of the streams.
Value sum_streams(Tape& t, Value x);
/// Of each stream the columns that its rank would hold; zero elsewhere.
Value own_blocks(Tape& t, Value x, std::string const& name);
/// The columns that each stream's rank would hold, side by side in one row.
Value select_blocks(Tape& t, Value x, std::string const& name);
/// What sync_channels does, over streams.
Value sync_streams(Tape& t, Value x, std::string const& name);

}  // namespace shardbench
