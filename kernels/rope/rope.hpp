#pragma once
#include <cstdint>

#include "kernels/core/device.hpp"

namespace shardbench {

/// Rotates the first `rotary_dim` elements of each head in place by its position (halves paired, as in Llama and
/// GPT-NeoX). `inverse` rotates back, which is the backward pass.
struct RopeArgs {
  void* x = nullptr;  ///< [seq*batch rows (sequence outermost), row_stride]; heads start at x
  std::int64_t seq = 0, batch = 0, heads = 0, head_dim = 0, rotary_dim = 0, row_stride = 0;
  float theta = 10000.0f;
  std::int32_t const* positions = nullptr;  ///< [seq] global positions; nullptr means 0, 1, ...
  bool inverse = false;
  Dtype dtype = Dtype::f32;
};

}  // namespace shardbench
