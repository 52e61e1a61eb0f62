#include <limits>

#include "kernels/core/element.hpp"
#include "kernels/kernel_set_ref.hpp"

namespace shardbench::reference {

void best_token(BestTokenArgs const& args) {
  for (std::int64_t r = 0; r < args.rows; ++r) {
    double highest = -std::numeric_limits<double>::infinity();
    std::int64_t column = args.first_column;
    for (std::int64_t c = 0; c < args.columns && args.first_column + c < args.valid_vocab; ++c) {
      double const logit = read_element(args.logits, args.dtype, r * args.columns + c);
      if (logit > highest) highest = logit, column = args.first_column + c;
    }
    args.best[2 * r] = static_cast<float>(highest);
    args.best[2 * r + 1] = static_cast<float>(column);
  }
}

void pick_token(PickTokenArgs const& args) {
  for (std::int64_t r = 0; r < args.rows; ++r) {
    float highest = -std::numeric_limits<float>::infinity(), column = args.best[2 * r + 1];
    for (std::int64_t p = 0; p < args.parts; ++p) {
      float const* const one = args.best + 2 * (p * args.rows + r);
      if (one[0] > highest) highest = one[0], column = one[1];
    }
    args.tokens[r] = static_cast<std::int32_t>(column);
  }
}

}  // namespace shardbench::reference
