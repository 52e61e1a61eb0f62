#pragma once
#include "kernels/core/counter_rng.hpp"
#include "kernels/dropout/dropout.hpp"

namespace shardbench {

/// What dropout needs beside the element.
struct DropoutMask {
  std::uint64_t key;
  std::int32_t const* positions;
  std::int64_t cols, batch, seq, first_sample, copies;
  float rate, kept_scale;  ///< kept_scale: 1 / (1 - rate)

  /// Global number of a row's first element.
  SB_HOST_DEVICE std::uint64_t first_of(std::int64_t row) const {
    std::int64_t const place = row / batch, sample = first_sample + (row - place * batch) / copies;
    return static_cast<std::uint64_t>((sample * seq + positions[place]) * cols);
  }
  SB_HOST_DEVICE float apply(float value, std::uint64_t element) const {
    return random_uniform(key, element) < rate ? 0.0f : value * kept_scale;
  }
};

inline DropoutMask dropout_mask(DropoutArgs const& args) {
  return {args.key,  args.positions,           args.cols, args.batch, args.seq, args.first_sample, args.copies,
          args.rate, 1.0f / (1.0f - args.rate)};
}

}  // namespace shardbench
