#pragma once
#include <cstdint>

#include "kernels/core/binding.hpp"
#include "kernels/core/cost.hpp"
#include "kernels/core/device.hpp"

namespace shardbench {

/// Logits of one vocabulary shard: columns [first_column, first_column + columns) of the padded vocabulary, of which
/// those at or beyond `valid_vocab` are padding and take no part. A target below 0 is ignored.
struct CrossEntropyShape {
  void const* logits = nullptr;           ///< [tokens, columns]
  std::int32_t const* targets = nullptr;  ///< [tokens] global columns
  std::int64_t tokens = 0, columns = 0, first_column = 0, valid_vocab = 0;
  Dtype dtype = Dtype::f32;
  float softcap =
      0;  ///< logits become softcap * tanh(logit / softcap) when > 0 (Gemma 2); all that is below sees them so
};

/// Sizes of the logits of one vocabulary shard (CrossEntropyShape), and the factor on the loss.
struct CrossEntropyOpShape {
  std::int64_t tokens = 0, columns = 0, first_column = 0, valid_vocab = 0;
  float scale = 1, softcap = 0;
};

/// maximum[t] = max over this shard's valid columns (-infinity when it has none); all-reduced with max over tp.
struct CrossEntropyMaxArgs {
  using Shape = CrossEntropyOpShape;
  /// One comparison a logit.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static CrossEntropyMaxArgs bind(Shape const& shape, Binding const& binding);

  CrossEntropyShape shape;
  float* maximum = nullptr;  ///< [tokens]
};

/// sums[0][t] = sum of exp(logit - maximum[t]), sums[1][t] = target's logit - maximum[t] or 0 when it is another
/// rank's; all-reduced with sum over tp.
struct CrossEntropySumArgs {
  using Shape = CrossEntropyOpShape;
  /// Subtract, exponentiate, add: 3 FLOPs a logit.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static CrossEntropySumArgs bind(Shape const& shape, Binding const& binding);

  CrossEntropyShape shape;
  float const* maximum = nullptr;
  float* sums = nullptr;  ///< [2, tokens]
};

/// loss[0] = scale * sum over counted tokens of (log sums[0] - sums[1]); added to when `accumulate`.
struct CrossEntropyLossArgs {
  using Shape = CrossEntropyOpShape;
  /// Per token only.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static CrossEntropyLossArgs bind(Shape const& shape, Binding const& binding);

  CrossEntropyShape shape;
  float const* sums = nullptr;
  float* loss = nullptr;  ///< one fp32
  float scale = 1;
  bool accumulate = false;
};

/// dlogits = scale * (softmax - one-hot target), zero in padded columns and ignored rows; may overwrite the logits.
struct CrossEntropyBackwardArgs {
  using Shape = CrossEntropyOpShape;
  /// Subtract, exponentiate, scale: 3 FLOPs a logit; logits read, gradients written.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static CrossEntropyBackwardArgs bind(Shape const& shape, Binding const& binding);

  CrossEntropyShape shape;
  float const* maximum = nullptr;
  float const* sums = nullptr;
  void* dlogits = nullptr;
  float scale = 1;
};

}  // namespace shardbench
