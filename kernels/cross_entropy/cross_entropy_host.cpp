#include <algorithm>
#include <cmath>

#include "kernels/core/fast_math.hpp"
#include "kernels/core/row_host.hpp"
#include "kernels/core/storage.hpp"
#include "kernels/cross_entropy/cross_entropy_math.hpp"
#include "kernels/kernel_set_host.hpp"

namespace shardbench::host {
namespace {

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

/// A logit as it is, or after the soft cap.
struct Cap {
  float cap;
  float operator()(float logit) const { return cap > 0 ? cap * fast_tanh(logit / cap) : logit; }
  /// d(capped)/d(logit), from the capped value.
  float slope(float capped) const { return cap > 0 ? 1.0f - capped / cap * (capped / cap) : 1.0f; }
};

struct NoCap {
  float operator()(float logit) const { return logit; }
  float slope(float) const { return 1.0f; }
};

/// Calls `body(cap)` with a type that costs the loops nothing when there is no cap.
template <class Body>
void with_cap(float softcap, Body const& body) {
  if (softcap > 0)
    body(Cap{softcap});
  else
    body(NoCap{});
}

template <class T>
void backward_row(CrossEntropyBackwardArgs const& args, std::int64_t t, auto const& cap) {
  CrossEntropyShape const& shape = args.shape;
  T* const to = static_cast<T*>(args.dlogits) + t * shape.columns;
  std::int64_t const valid = shape.targets[t] < 0 ? 0 : valid_columns(shape);
  std::int64_t const target = target_column(shape, t);
  T const* const logits = logits_of<T>(shape, t);
  float const maximum = args.maximum[t], factor = valid > 0 ? args.scale / args.sums[t] : 0.0f;
  // The target's element is computed apart: its logit may be overwritten by the loop.
  float const target_logit = target >= 0 ? cap(to_float(logits[target])) : 0.0f;
  float const target_weight = target >= 0 ? fast_exp(target_logit - maximum) : 0.0f;
#pragma omp simd
  for (std::int64_t c = 0; c < valid; ++c) {
    float const logit = cap(to_float(logits[c]));
    to[c] = from_float<T>(fast_exp(logit - maximum) * factor * cap.slope(logit));
  }
  std::fill(to + valid, to + shape.columns, T{});
  if (target >= 0)
    to[target] = from_float<T>(args.scale * (target_weight / args.sums[t] - 1.0f) * cap.slope(target_logit));
}

}  // namespace

void cross_entropy_max(CrossEntropyMaxArgs const& args) {
  with_storage(args.shape.dtype, "cross-entropy", [&]<class T>(T) {
    for (std::int64_t t = 0; t < args.shape.tokens; ++t) {
      T const* const logits = logits_of<T>(args.shape, t);
      float const highest = max_row(valid_columns(args.shape), [&](std::int64_t c) { return to_float(logits[c]); });
      // The cap is monotonic; a shard without columns keeps its -infinity.
      args.maximum[t] = std::isfinite(highest) ? Cap{args.shape.softcap}(highest) : highest;
    }
  });
}

void cross_entropy_sum(CrossEntropySumArgs const& args) {
  CrossEntropyShape const& shape = args.shape;
  with_storage(shape.dtype, "cross-entropy", [&]<class T>(T) {
    for (std::int64_t t = 0; t < shape.tokens; ++t) {
      T const* const logits = logits_of<T>(shape, t);
      float const maximum = args.maximum[t];
      with_cap(shape.softcap, [&](auto const& cap) {
        args.sums[t] =
            sum_row(valid_columns(shape), [&](std::int64_t c) { return fast_exp(cap(to_float(logits[c])) - maximum); });
      });
      std::int64_t const target = target_column(shape, t);
      args.sums[shape.tokens + t] = target >= 0 ? Cap{shape.softcap}(to_float(logits[target])) - maximum : 0.0f;
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
    with_cap(args.shape.softcap, [&](auto const& cap) {
      for (std::int64_t t = 0; t < args.shape.tokens; ++t) backward_row<T>(args, t, cap);
    });
  });
}

}  // namespace shardbench::host
