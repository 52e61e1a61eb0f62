#pragma once
#include <cstdint>

#include "kernels/core/binding.hpp"
#include "kernels/core/cost.hpp"
#include "kernels/core/device.hpp"

namespace shardbench {

/// What a pair's share of interpolation (RopeRule) runs over.
enum class RopeRamp : std::uint8_t { pair, frequency };

/// How fast each pair turns. Its plain frequency is f = theta^(-2d / rotary_dim) radians a position (Su et al. 2021),
/// and it turns by f * (1 - r + r / factor): r goes from 0 where the pair's index, or f, is `begin` to 1 where it is
/// `end`, and is held outside. Linear scaling is r = 1 throughout, YaRN (arXiv 2309.00071) ramps over pairs, Llama 3.1
/// over frequencies. Both elements are scaled by `amplitude` too (YaRN's attention factor).
struct RopeRule {
  float theta = 10000.0f;
  RopeRamp ramp = RopeRamp::pair;
  double factor = 1, begin = -1, end = 0;
  float amplitude = 1;
};

/// Heads of (sequence, batch) rows to turn.
struct RopeShape {
  std::int64_t seq = 0, batch = 0, heads = 0, head_dim = 0, rotary_dim = 0;
  RopeRule rule;
  bool inverse = false;
};

/// Rotates the first `rotary_dim` elements of each head in place by its position (halves paired, as in Llama and
/// GPT-NeoX). `inverse` rotates back by the same
/// angles (and scales by the same amplitude), which is the backward pass.
struct RopeArgs {
  using Shape = RopeShape;
  /// 3 FLOPs an element that turns (2 products, 1 sum), read and written in place.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static RopeArgs bind(Shape const& shape, Binding const& binding);

  void* x = nullptr;  ///< [seq*batch rows (sequence outermost), row_stride]; heads start at x
  std::int64_t seq = 0, batch = 0, heads = 0, head_dim = 0, rotary_dim = 0, row_stride = 0;
  RopeRule rule;
  std::int32_t const* positions = nullptr;  ///< [seq] global positions; nullptr means 0, 1, ...
  bool inverse = false;
  Dtype dtype = Dtype::f32;
};

}  // namespace shardbench
