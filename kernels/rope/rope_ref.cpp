#include <algorithm>
#include <cmath>

#include "kernels/core/element.hpp"
#include "kernels/kernel_set_ref.hpp"

namespace shardbench::reference {

namespace {

double frequency(RopeRule const& rule, std::int64_t d, std::int64_t rotary_dim) {
  double const plain = std::pow(rule.theta, -2.0 * static_cast<double>(d) / static_cast<double>(rotary_dim));
  double const measure = rule.ramp == RopeRamp::pair ? static_cast<double>(d) : plain;
  double const slowed = std::clamp((measure - rule.begin) / (rule.end - rule.begin), 0.0, 1.0);
  return (1 - slowed) * plain + slowed * plain / rule.factor;
}

}  // namespace

void rope(RopeArgs const& args) {
  std::int64_t const half = args.rotary_dim / 2;
  for (std::int64_t s = 0; s < args.seq; ++s) {
    double const position = static_cast<double>(args.positions != nullptr ? args.positions[s] : s);
    for (std::int64_t d = 0; d < half; ++d) {
      double const angle = position * frequency(args.rule, d, args.rotary_dim) * (args.inverse ? -1 : 1);
      double const sine = std::sin(angle) * args.rule.amplitude, cosine = std::cos(angle) * args.rule.amplitude;
      for (std::int64_t b = 0; b < args.batch; ++b) {
        for (std::int64_t h = 0; h < args.heads; ++h) {
          std::int64_t const first = (s * args.batch + b) * args.row_stride + h * args.head_dim + d;
          double const x = read_element(args.x, args.dtype, first);
          double const y = read_element(args.x, args.dtype, first + half);
          write_element(args.x, args.dtype, first, x * cosine - y * sine);
          write_element(args.x, args.dtype, first + half, y * cosine + x * sine);
        }
      }
    }
  }
}

}  // namespace shardbench::reference
