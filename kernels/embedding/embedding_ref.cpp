#include <vector>

#include "kernels/core/element.hpp"
#include "kernels/kernel_set_ref.hpp"

namespace shardbench::reference {

void embedding_forward(EmbeddingForwardArgs const& args) {
  for (std::int64_t t = 0; t < args.tokens; ++t) {
    std::int64_t const row = args.ids[t] - args.first_row;
    bool const mine = row >= 0 && row < args.rows;
    for (std::int64_t c = 0; c < args.cols; ++c) {
      double value =
          mine ? static_cast<double>(args.scale) * read_element(args.weight, args.dtype, row * args.cols + c) : 0.0;
      if (args.accumulate) value += read_element(args.out, args.dtype, t * args.cols + c);
      write_element(args.out, args.dtype, t * args.cols + c, value);
    }
  }
}

void embedding_backward(EmbeddingBackwardArgs const& args) {
  std::vector<double> sums(args.rows * args.cols, 0.0);
  for (std::int64_t t = 0; t < args.tokens; ++t) {
    std::int64_t const row = args.ids[t] - args.first_row;
    if (row < 0 || row >= args.rows) continue;
    for (std::int64_t c = 0; c < args.cols; ++c) {
      sums[row * args.cols + c] +=
          static_cast<double>(args.scale) * read_element(args.dout, args.dtype, t * args.cols + c);
    }
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    args.dweight[i] = static_cast<float>(sums[i] + (args.accumulate ? static_cast<double>(args.dweight[i]) : 0.0));
  }
}

}  // namespace shardbench::reference
