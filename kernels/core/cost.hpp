#pragma once
#include <cstdint>

#include "kernels/core/dtype.hpp"

namespace shardbench {

/// Work of one kernel call: floating-point operations, and the bytes that must move if every operand is read once and
/// every result written once.
struct OpCost {
  double flops = 0;
  double bytes = 0;
  double model_flops = 0;       ///< what of them counts as model FLOPs: products, attention at its visible pairs
  double model_flops_full = 0;  ///< the same with masked pairs of attention counted too
  OpCost& operator+=(OpCost const& other) { return *this = *this + other; }
  friend OpCost operator+(OpCost const& a, OpCost const& b) {
    return {a.flops + b.flops, a.bytes + b.bytes, a.model_flops + b.model_flops,
            a.model_flops_full + b.model_flops_full};
  }
  friend OpCost operator*(double times, OpCost const& cost) {
    return {times * cost.flops, times * cost.bytes, times * cost.model_flops, times * cost.model_flops_full};
  }
};

/// The cost of a product: all its FLOPs are the model's.
inline OpCost product_cost(double flops, double bytes) { return {flops, bytes, flops, flops}; }

/// What a cost depends on besides the op's shape.
struct CostContext {
  Dtype precision = Dtype::f32;                       ///< of activations and weights
  Dtype input = Dtype::f32, output = Dtype::f32;      ///< of the first operand read and the first one written
  bool adds = false;                                  ///< to its output
  std::uint32_t given_inputs = 0, given_outputs = 0;  ///< bit i: operand i is there
  double output_rows = 0, expected_output_rows = 0;   ///< of the first output: its bound, and what routing brings it
  bool has_input(int i) const { return given_inputs >> i & 1; }
  bool has_output(int i) const { return given_outputs >> i & 1; }
  /// Of an output with routed rows, the part that is expected to be there.
  double expected_share() const { return output_rows > 0 ? expected_output_rows / output_rows : 1; }
};

/// The product of sizes, in double: large models overflow the integers.
template <class... Sizes>
double elements_of(Sizes... sizes) {
  return (... * static_cast<double>(sizes));
}

/// Bytes of one element, for sums in double.
inline double width_of(Dtype dtype) { return static_cast<double>(bytes_of(dtype)); }

/// Bytes of a statistic, a count or an index.
inline constexpr double fp32_bytes = 4;

}  // namespace shardbench
