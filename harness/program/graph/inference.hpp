#pragma once
#include "harness/program/graph/tape.hpp"

namespace shardbench {

/// Whether keys and values are kept for later steps.
bool caches(Tape const& t);
/// Positions that the cache of the tape's layer holds: all, or what its window reaches.
std::int64_t cached_positions(Tape const& t);
/// The cache of the current layer: `width` elements a token.
TensorRef kv_cache(Tape& t, std::int64_t width);
/// Writes this step's rows to columns of the cache, behind those of earlier steps.
void append_to_cache(Tape& t, TensorRef from, std::int64_t cols, TensorRef cache);

/// The rows of the last position of each sample.
Value last_position(Tape& t, Value x);
/// Keeps the logits and writes the column of the largest to program.inference.next_ids.
void greedy(Tape& t, Value logits, std::int64_t first_column);
/// Sends the chosen token to the first stage, or receives it there.
void hand_on_token(Tape& t, bool sends);

}  // namespace shardbench
