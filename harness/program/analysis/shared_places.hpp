#pragma once
#include <vector>

#include "harness/program/analysis/lifetimes.hpp"

namespace shardbench {

/// A tensor and the runs during which it needs memory, in order.
struct SharedBlock {
  TensorId id = no_tensor;
  std::vector<RunInterval> taken;
};

/// Sets of tensors that are never alive together, so that each set can have one place; few sets, not always the fewest.
std::vector<std::vector<TensorId>> share_places(std::vector<SharedBlock> const& blocks);

}  // namespace shardbench
