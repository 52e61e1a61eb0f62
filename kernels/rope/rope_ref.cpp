#include <cmath>

#include "kernels/core/element.hpp"
#include "kernels/kernel_set_ref.hpp"

namespace shardbench::reference {

void rope(RopeArgs const& args) {
  std::int64_t const half = args.rotary_dim / 2;
  for (std::int64_t s = 0; s < args.seq; ++s) {
    double const position = static_cast<double>(args.positions != nullptr ? args.positions[s] : s);
    for (std::int64_t d = 0; d < half; ++d) {
      double const exponent = -2.0 * static_cast<double>(d) / static_cast<double>(args.rotary_dim);
      double const angle = position * std::pow(static_cast<double>(args.theta), exponent) * (args.inverse ? -1 : 1);
      for (std::int64_t b = 0; b < args.batch; ++b) {
        for (std::int64_t h = 0; h < args.heads; ++h) {
          std::int64_t const first = (s * args.batch + b) * args.row_stride + h * args.head_dim + d;
          double const x = read_element(args.x, args.dtype, first);
          double const y = read_element(args.x, args.dtype, first + half);
          write_element(args.x, args.dtype, first, x * std::cos(angle) - y * std::sin(angle));
          write_element(args.x, args.dtype, first + half, y * std::cos(angle) + x * std::sin(angle));
        }
      }
    }
  }
}

}  // namespace shardbench::reference
