#pragma once
#include "harness/program/graph/tape.hpp"

namespace shardbench {

/// Where queries, keys and values lie (or their gradients), each with its row stride.
struct AttentionParts {
  TensorRef q, k, v;
};

/// The attention core: over a whole sequence, or over one that the context axis cuts, by the method of the cut (a ring,
/// gathered keys, or some of the heads each). Its gradients go where `gradients` says, and are the caller's to pass on.
Value attend(Tape& t, AttentionOpShape const& shape, AttentionParts const& parts, AttentionParts const& gradients,
             std::int64_t rows, Layout const& layout);

}  // namespace shardbench
