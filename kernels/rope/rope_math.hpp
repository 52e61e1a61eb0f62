#pragma once
#include <cmath>

#include "kernels/core/fast_math.hpp"
#include "kernels/rope/rope.hpp"

namespace shardbench {

/// Radians per position of pair d: theta^(-2d / rotary_dim) (Su et al. 2021).
SB_HOST_DEVICE inline double rope_frequency(double theta, std::int64_t d, std::int64_t rotary_dim) {
  return std::pow(theta, -2.0 * static_cast<double>(d) / static_cast<double>(rotary_dim));
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
