#pragma once
#include "harness/program/graph/tape.hpp"

namespace shardbench {

/// Self-attention over packed projections [q | k | v]; norms of the heads and rotary embedding first when the model
/// has them.
Value attention(Tape& t, Value qkv);

/// Sizes of the attention of the current layer in this rank.
AttentionOpShape attention_shape(Tape const& t);
/// Rotary embedding of `heads` where they lie, at `positions`; or its inverse.
void rotate(Tape& t, RopeShape shape, TensorRef heads, TensorRef positions, bool inverse);

}  // namespace shardbench
