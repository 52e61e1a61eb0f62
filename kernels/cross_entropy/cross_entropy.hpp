#pragma once
#include <cstdint>

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

/// maximum[t] = max over this shard's valid columns (-infinity when it has none); all-reduced with max over tp.
struct CrossEntropyMaxArgs {
  CrossEntropyShape shape;
  float* maximum = nullptr;  ///< [tokens]
};

/// sums[0][t] = sum of exp(logit - maximum[t]), sums[1][t] = target's logit - maximum[t] or 0 when it is another
/// rank's; all-reduced with sum over tp.
struct CrossEntropySumArgs {
  CrossEntropyShape shape;
  float const* maximum = nullptr;
  float* sums = nullptr;  ///< [2, tokens]
};

/// loss[0] = scale * sum over counted tokens of (log sums[0] - sums[1]); added to when `accumulate`.
struct CrossEntropyLossArgs {
  CrossEntropyShape shape;
  float const* sums = nullptr;
  float* loss = nullptr;  ///< one fp32
  float scale = 1;
  bool accumulate = false;
};

/// dlogits = scale * (softmax - one-hot target), zero in padded columns and ignored rows; may overwrite the logits.
struct CrossEntropyBackwardArgs {
  CrossEntropyShape shape;
  float const* maximum = nullptr;
  float const* sums = nullptr;
  void* dlogits = nullptr;
  float scale = 1;
};

}  // namespace shardbench
