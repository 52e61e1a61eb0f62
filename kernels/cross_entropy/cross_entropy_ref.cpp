#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/core/element.hpp"
#include "kernels/cross_entropy/cross_entropy_math.hpp"
#include "kernels/kernel_set_ref.hpp"

namespace shardbench::reference {
namespace {

double logit(CrossEntropyShape const& shape, std::int64_t t, std::int64_t column) {
  double const raw = read_element(shape.logits, shape.dtype, t * shape.columns + column);
  double const cap = static_cast<double>(shape.softcap);
  return cap > 0 ? cap * std::tanh(raw / cap) : raw;
}

}  // namespace

void cross_entropy_max(CrossEntropyMaxArgs const& args) {
  for (std::int64_t t = 0; t < args.shape.tokens; ++t) {
    double highest = -std::numeric_limits<double>::infinity();
    for (std::int64_t c = 0; c < valid_columns(args.shape); ++c) highest = std::max(highest, logit(args.shape, t, c));
    args.maximum[t] = static_cast<float>(highest);
  }
}

void cross_entropy_sum(CrossEntropySumArgs const& args) {
  CrossEntropyShape const& shape = args.shape;
  for (std::int64_t t = 0; t < shape.tokens; ++t) {
    double sum = 0, target = 0;
    for (std::int64_t c = 0; c < valid_columns(shape); ++c) {
      double const shifted = logit(shape, t, c) - static_cast<double>(args.maximum[t]);
      sum += std::exp(shifted);
      if (shape.targets[t] >= 0 && shape.targets[t] == shape.first_column + c) target = shifted;
    }
    args.sums[t] = static_cast<float>(sum);
    args.sums[shape.tokens + t] = static_cast<float>(target);
  }
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
  CrossEntropyShape const& shape = args.shape;
  for (std::int64_t t = 0; t < shape.tokens; ++t) {
    for (std::int64_t c = 0; c < shape.columns; ++c) {
      double gradient = 0;
      if (shape.targets[t] >= 0 && c < valid_columns(shape)) {
        double const value = logit(shape, t, c), cap = static_cast<double>(shape.softcap);
        gradient = std::exp(value - static_cast<double>(args.maximum[t])) / static_cast<double>(args.sums[t]);
        if (shape.targets[t] == shape.first_column + c) gradient -= 1;
        if (cap > 0) gradient *= 1 - value / cap * (value / cap);
      }
      write_element(args.dlogits, shape.dtype, t * shape.columns + c, gradient * static_cast<double>(args.scale));
    }
  }
}

}  // namespace shardbench::reference
