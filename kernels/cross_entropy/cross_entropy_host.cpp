#include <algorithm>
#include <cmath>

#include "kernels/core/fast_math.hpp"
#include "kernels/core/row_host.hpp"
#include "kernels/core/storage.hpp"
#include "kernels/kernel_set_host.hpp"

namespace shardbench::host {
namespace {

/// Columns of this shard that are not padding.
std::int64_t valid_columns(CrossEntropyShape const& shape) {
  return std::clamp<std::int64_t>(shape.valid_vocab - shape.first_column, 0, shape.columns);
}

/// This shard's column of token t's target, or -1 when it has none or another rank holds it.
std::int64_t target_column(CrossEntropyShape const& shape, std::int64_t t) {
  if (shape.targets[t] < 0) return -1;
  std::int64_t const column = shape.targets[t] - shape.first_column;
  return column >= 0 && column < valid_columns(shape) ? column : -1;
}

template <class T>
T const* logits_of(CrossEntropyShape const& shape, std::int64_t t) {
  return static_cast<T const*>(shape.logits) + t * shape.columns;
}

template <class T>
void backward_row(CrossEntropyBackwardArgs const& args, std::int64_t t) {
  CrossEntropyShape const& shape = args.shape;
  T* const to = static_cast<T*>(args.dlogits) + t * shape.columns;
  std::int64_t const valid = shape.targets[t] < 0 ? 0 : valid_columns(shape);
  std::int64_t const target = target_column(shape, t);
  T const* const logits = logits_of<T>(shape, t);
  float const maximum = args.maximum[t], factor = valid > 0 ? args.scale / args.sums[t] : 0.0f;
  // The target's element is computed apart: its logit may be overwritten by the loop.
  float const target_weight = target >= 0 ? fast_exp(to_float(logits[target]) - maximum) : 0.0f;
#pragma omp simd
  for (std::int64_t c = 0; c < valid; ++c) to[c] = from_float<T>(fast_exp(to_float(logits[c]) - maximum) * factor);
  std::fill(to + valid, to + shape.columns, T{});
  if (target >= 0) to[target] = from_float<T>(args.scale * (target_weight / args.sums[t] - 1.0f));
}

}  // namespace

void cross_entropy_max(CrossEntropyMaxArgs const& args) {
  with_storage(args.shape.dtype, "cross-entropy", [&]<class T>(T) {
    for (std::int64_t t = 0; t < args.shape.tokens; ++t) {
      T const* const logits = logits_of<T>(args.shape, t);
      args.maximum[t] = max_row(valid_columns(args.shape), [&](std::int64_t c) { return to_float(logits[c]); });
    }
  });
}

void cross_entropy_sum(CrossEntropySumArgs const& args) {
  CrossEntropyShape const& shape = args.shape;
  with_storage(shape.dtype, "cross-entropy", [&]<class T>(T) {
    for (std::int64_t t = 0; t < shape.tokens; ++t) {
      T const* const logits = logits_of<T>(shape, t);
      float const maximum = args.maximum[t];
      args.sums[t] =
          sum_row(valid_columns(shape), [&](std::int64_t c) { return fast_exp(to_float(logits[c]) - maximum); });
      std::int64_t const target = target_column(shape, t);
      args.sums[shape.tokens + t] = target >= 0 ? to_float(logits[target]) - maximum : 0.0f;
    }
  });
}

void cross_entropy_loss(CrossEntropyLossArgs const& args) {
  CrossEntropyShape const& shape = args.shape;
  double loss = 0;
  for (std::int64_t t = 0; t < shape.tokens; ++t) {
    if (shape.targets[t] < 0) continue;
    loss += std::log(static_cast<double>(args.sums[t])) - static_cast<double>(args.sums[shape.tokens + t]);
  }
  loss *= static_cast<double>(args.scale);
  args.loss[0] = static_cast<float>(loss + (args.accumulate ? static_cast<double>(args.loss[0]) : 0.0));
}

void cross_entropy_backward(CrossEntropyBackwardArgs const& args) {
  with_storage(args.shape.dtype, "cross-entropy", [&]<class T>(T) {
    for (std::int64_t t = 0; t < args.shape.tokens; ++t) backward_row<T>(args, t);
  });
}

}  // namespace shardbench::host
