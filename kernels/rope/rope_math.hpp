#pragma once
#include <cmath>

#include "kernels/core/fast_math.hpp"
#include "kernels/rope/rope.hpp"

namespace shardbench {

/// Radians per position of pair d, as RopeRule says.
SB_HOST_DEVICE inline double rope_frequency(RopeRule const& rule, std::int64_t d, std::int64_t rotary_dim) {
  double const index = static_cast<double>(d);
  double const plain = std::pow(static_cast<double>(rule.theta), -2.0 * index / static_cast<double>(rotary_dim));
  if (rule.factor == 1) return plain;
  double const at = ((rule.ramp == RopeRamp::pair ? index : plain) - rule.begin) / (rule.end - rule.begin);
  double const share = at < 0 ? 0 : at > 1 ? 1 : at;
  return plain * (1 - share + share / rule.factor);
}

/// Sine and cosine of an angle, scaled.
SB_HOST_DEVICE inline SineCosine scaled(SineCosine angle, float amplitude) {
  return {angle.sine * amplitude, angle.cosine * amplitude};
}

/// The two elements of a pair.
struct RopePair {
  float first, second;
};

/// The pair turned by the angle.
SB_HOST_DEVICE inline RopePair rotate(RopePair pair, SineCosine angle) {
  return {pair.first * angle.cosine - pair.second * angle.sine, pair.second * angle.cosine + pair.first * angle.sine};
}

}  // namespace shardbench
