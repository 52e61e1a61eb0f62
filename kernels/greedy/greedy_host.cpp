#include <algorithm>
#include <limits>

#include "kernels/core/row_host.hpp"
#include "kernels/core/storage.hpp"
#include "kernels/kernel_set_host.hpp"

namespace shardbench::host {

void best_token(BestTokenArgs const& args) {
  std::int64_t const valid = std::clamp<std::int64_t>(args.valid_vocab - args.first_column, 0, args.columns);
  with_storage(args.dtype, "greedy", [&]<class T>(T) {
    for (std::int64_t r = 0; r < args.rows; ++r) {
      T const* const logits = static_cast<T const*>(args.logits) + r * args.columns;
      // The maximum first, which vectorises; then the first column that has it.
      float const highest = max_row(valid, [&](std::int64_t c) { return to_float(logits[c]); });
      std::int64_t column = 0;
      while (column < valid && to_float(logits[column]) < highest) ++column;
      args.best[2 * r] = highest;
      args.best[2 * r + 1] = static_cast<float>(args.first_column + (column < valid ? column : 0));
    }
  });
}

void pick_token(PickTokenArgs const& args) {
  for (std::int64_t r = 0; r < args.rows; ++r) {
    float const* best = args.best + 2 * r;
    for (std::int64_t p = 1; p < args.parts; ++p) {
      float const* const one = args.best + 2 * (p * args.rows + r);
      if (one[0] > best[0]) best = one;
    }
    args.tokens[r] = static_cast<std::int32_t>(best[1]);
  }
}

}  // namespace shardbench::host
