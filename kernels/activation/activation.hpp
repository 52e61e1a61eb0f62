#pragma once
#include <cstdint>

#include "kernels/core/binding.hpp"
#include "kernels/core/cost.hpp"
#include "kernels/core/device.hpp"

namespace shardbench {

enum class ActivationKind : std::uint8_t { gelu_tanh, gelu_erf, silu };

/// `rows` is a bound where they are routed.
struct ActivationShape {
  ActivationKind kind = ActivationKind::gelu_tanh;
  bool gated = false;
  std::int64_t rows = 0, cols = 0;
};

/// y = f(x), or with `gated` y = f(x[:, :cols]) * x[:, cols:] where x is [rows, 2*cols] (gate first, then up).
struct ActivationForwardArgs {
  using Shape = ActivationShape;
  /// 10 FLOPs an element for GELU and SiLU alike, 1 more for a gate.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static ActivationForwardArgs bind(Shape const& shape, Binding const& binding);

  ActivationKind kind = ActivationKind::gelu_tanh;
  bool gated = false;
  void const* x = nullptr;
  void* y = nullptr;  ///< [rows, cols]
  std::int64_t rows = 0, cols = 0;
  Dtype dtype = Dtype::f32;
};

/// dx from dy and the forward's x; dx may be x itself.
struct ActivationBackwardArgs {
  using Shape = ActivationShape;
  /// 15 FLOPs an element, 3 more for a gate.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static ActivationBackwardArgs bind(Shape const& shape, Binding const& binding);

  ActivationKind kind = ActivationKind::gelu_tanh;
  bool gated = false;
  void const* dy = nullptr;  ///< [rows, cols]
  void const* x = nullptr;   ///< [rows, cols or 2*cols]
  void* dx = nullptr;        ///< like x
  std::int64_t rows = 0, cols = 0;
  Dtype dtype = Dtype::f32;
};

}  // namespace shardbench
