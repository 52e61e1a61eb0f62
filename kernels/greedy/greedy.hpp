#pragma once
#include <cstdint>

#include "kernels/core/binding.hpp"
#include "kernels/core/cost.hpp"
#include "kernels/core/device.hpp"

namespace shardbench {

/// Greedy choice among the logits of a vocabulary shard, or among `parts` shards' choices.
struct GreedyShape {
  std::int64_t rows = 0, columns = 0, first_column = 0, parts = 1;
};

/// best[r] = {largest logit, its global column as float} over this shard's columns below `valid_vocab`, the lowest
/// column where several are equal; {-infinity, first_column} where the shard has none. Columns stay below 2^24.
struct BestTokenArgs {
  using Shape = GreedyShape;
  /// One comparison a logit.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static BestTokenArgs bind(Shape const& shape, Binding const& binding);

  void const* logits = nullptr;  ///< [rows, columns]
  float* best = nullptr;         ///< [rows, 2]
  std::int64_t rows = 0, columns = 0, first_column = 0, valid_vocab = 0;
  Dtype dtype = Dtype::f32;
};

/// tokens[r] = column of the largest logit over the shards' answers, the lowest where several are equal.
struct PickTokenArgs {
  using Shape = GreedyShape;
  /// One comparison a shard's choice; the choices read, the tokens written.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static PickTokenArgs bind(Shape const& shape, Binding const& binding);

  float const* best = nullptr;  ///< [parts, rows, 2]
  std::int32_t* tokens = nullptr;
  std::int64_t parts = 1, rows = 0;
};

}  // namespace shardbench
