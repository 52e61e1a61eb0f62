#pragma once
// Loops over one row, for the host kernels. The simd pragmas allow reordering of these sums alone.
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/core/dtype.hpp"

namespace shardbench::host {

/// Widens n elements.
template <class T>
void load_row(T const* from, float* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = to_float(from[i]);
}

/// Rounds n elements to storage.
template <class T>
void store_row(float const* from, T* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = from_float<T>(from[i]);
}

/// Sum of f(i) for i in [0, n), in vector order.
template <class F>
float sum_row(std::int64_t n, F f) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += f(i);
  return sum;
}

/// Largest f(i), -infinity when n is 0.
template <class F>
float max_row(std::int64_t n, F f) {
  float best = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : best)
  for (std::int64_t i = 0; i < n; ++i) {
    float const value = f(i);
    best = value > best ? value : best;
  }
  return best;
}

/// Memory that a thread keeps between calls, so that a step does not allocate. Contents are undefined.
class Workspace {
 public:
  /// At least `count` floats, valid until the next call.
  float* floats(std::int64_t count) {
    std::size_t const needed = count;
    if (buffer_.size() < needed) {
      buffer_.clear();  // nothing to copy when it grows
      buffer_.resize(needed);
    }
    return buffer_.data();
  }

 private:
  std::vector<float> buffer_;
};

}  // namespace shardbench::host
