#include "kernels/core/counter_rng.hpp"
#include "kernels/core/element.hpp"
#include "kernels/kernel_set_ref.hpp"

namespace shardbench::reference {

void dropout(DropoutArgs const& args) {
  for (std::int64_t row = 0; row < args.rows; ++row) {
    for (std::int64_t col = 0; col < args.cols; ++col) {
      std::int64_t const i = row * args.cols + col;
      double value = read_element(args.x, args.dtype, i);
      if (args.bias != nullptr) value += read_element(args.bias, args.dtype, col);
      if (args.rate > 0) {
        std::int64_t const sample = args.first_sample + row % args.batch / args.copies;
        std::int64_t const position = args.positions[row / args.batch];
        auto const element = static_cast<std::uint64_t>((sample * args.seq + position) * args.cols + col);
        bool const dropped = random_uniform(args.key, element) < args.rate;
        value = dropped ? 0 : value / (1 - static_cast<double>(args.rate));
      }
      if (args.residual != nullptr) value += read_element(args.residual, args.dtype, i);
      write_element(args.out, args.dtype, i, value);
    }
  }
}

}  // namespace shardbench::reference
