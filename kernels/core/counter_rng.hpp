#pragma once
#include <cmath>
#include <cstdint>

#include "kernels/core/dtype.hpp"

namespace shardbench {

/// 64 well-mixed bits from a key and a counter (splitmix64 finaliser, Steele et al. 2014): the same element gets the
/// same bits whatever rank asks for it, so a shard is a slice of the unsharded tensor.
SB_HOST_DEVICE inline std::uint64_t random_bits(std::uint64_t key, std::uint64_t counter) {
  std::uint64_t z = (key + 0x9e3779b97f4a7c15ull) ^ (counter * 0xd1342543de82ef95ull + 0x2545f4914f6cdd1dull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  z ^= z >> 31;
  z = (z + key) * 0xbf58476d1ce4e5b9ull;
  return z ^ (z >> 32);
}

/// Uniform in [0, 1) with 24 bits.
SB_HOST_DEVICE inline float random_uniform(std::uint64_t key, std::uint64_t counter) {
  return static_cast<float>(random_bits(key, counter) >> 40) * 0x1p-24f;
}

/// Zero mean, unit variance: sum of four uniforms (Irwin-Hall), cheap and the same on every device.
SB_HOST_DEVICE inline float random_normal(std::uint64_t key, std::uint64_t counter) {
  std::uint64_t const bits = random_bits(key, counter);
  float sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<float>((bits >> (16 * i)) & 0xffffu) * 0x1p-16f;
  return (sum - 2.0f + 0x1p-15f) * 1.7320508f;
}

}  // namespace shardbench
