#pragma once
#include <algorithm>

#include "kernels/cross_entropy/cross_entropy.hpp"

namespace shardbench {

/// Columns of this shard that are not padding.
inline std::int64_t valid_columns(CrossEntropyShape const& shape) {
  return std::clamp<std::int64_t>(shape.valid_vocab - shape.first_column, 0, shape.columns);
}

}  // namespace shardbench
