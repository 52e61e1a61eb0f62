#include "kernels/core/element.hpp"
#include "kernels/kernel_set_ref.hpp"

namespace shardbench::reference {

void add(AddArgs const& args) {
  for (std::int64_t i = 0; i < args.count; ++i) {
    write_element(
        args.out, args.dtype, i,
        read_element(args.a, args.dtype, i) + read_element(args.b, args.dtype, i) * static_cast<double>(args.scale));
  }
}

void column_sum(ColumnSumArgs const& args) {
  for (std::int64_t c = 0; c < args.cols; ++c) {
    double sum = args.accumulate ? static_cast<double>(args.sums[c]) : 0.0;
    for (std::int64_t r = 0; r < args.rows; ++r) sum += read_element(args.x, args.dtype, r * args.cols + c);
    args.sums[c] = static_cast<float>(sum);
  }
}

void copy_block(CopyBlockArgs const& args) {
  for (std::int64_t r = 0; r < args.rows; ++r) {
    for (std::int64_t c = 0; c < args.cols; ++c) {
      write_element(
          args.to, args.to_dtype, r * args.to_stride + c,
          static_cast<double>(args.scale) * read_element(args.from, args.from_dtype, r * args.from_stride + c));
    }
  }
}

void square_sum(SquareSumArgs const& args) {
  double sum = args.accumulate ? static_cast<double>(args.out[0]) : 0.0;
  for (std::int64_t i = 0; i < args.count; ++i) {
    double const value = read_element(args.x, args.dtype, i);
    sum += value * value;
  }
  args.out[0] = static_cast<float>(sum);
}

}  // namespace shardbench::reference
