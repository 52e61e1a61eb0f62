#include <algorithm>

#include "kernels/core/storage.hpp"
#include "kernels/kernel_set_host.hpp"

namespace shardbench::host {

void embedding_forward(EmbeddingForwardArgs const& args) {
  with_storage(args.dtype, "embedding", [&]<class T>(T) {
    for (std::int64_t t = 0; t < args.tokens; ++t) {
      std::int64_t const row = args.ids[t] - args.first_row;
      bool const mine = row >= 0 && row < args.rows;
      T const* const from = static_cast<T const*>(args.weight) + (mine ? row : 0) * args.cols;
      T* const to = static_cast<T*>(args.out) + t * args.cols;
      if (!args.accumulate) {
        if (mine && args.scale == 1.0f) {
          std::copy_n(from, args.cols, to);
        } else if (mine) {
          for (std::int64_t c = 0; c < args.cols; ++c) to[c] = from_float<T>(args.scale * to_float(from[c]));
        } else {
          std::fill_n(to, args.cols, T{});
        }
      } else if (mine) {
        for (std::int64_t c = 0; c < args.cols; ++c)
          to[c] = from_float<T>(to_float(to[c]) + args.scale * to_float(from[c]));
      }
    }
  });
}

void embedding_backward(EmbeddingBackwardArgs const& args) {
  with_storage(args.dtype, "embedding", [&]<class T>(T) {
    if (!args.accumulate) std::fill_n(args.dweight, args.rows * args.cols, 0.0f);
    for (std::int64_t t = 0; t < args.tokens; ++t) {
      std::int64_t const row = args.ids[t] - args.first_row;
      if (row < 0 || row >= args.rows) continue;
      T const* const from = static_cast<T const*>(args.dout) + t * args.cols;
      float* const to = args.dweight + row * args.cols;
      for (std::int64_t c = 0; c < args.cols; ++c) to[c] += args.scale * to_float(from[c]);
    }
  });
}

}  // namespace shardbench::host
