#include "kernels/activation/activation.hpp"

namespace shardbench {

OpCost ActivationForwardArgs::cost(ActivationShape const& s, CostContext const& context) {
  double const elements = elements_of(s.rows, s.cols);
  return context.expected_share() *
         OpCost{elements * (s.gated ? 11 : 10), width_of(context.precision) * elements * (s.gated ? 3 : 2)};
}

ActivationForwardArgs ActivationForwardArgs::bind(ActivationShape const& s, Binding const& b) {
  return {s.kind, s.gated, b.in(0).data, b.out(0).data, b.rows_here(s.rows), s.cols, b.precision};
}

OpCost ActivationBackwardArgs::cost(ActivationShape const& s, CostContext const& context) {
  double const elements = elements_of(s.rows, s.cols);
  return context.expected_share() *
         OpCost{elements * (s.gated ? 18 : 15), width_of(context.precision) * elements * (s.gated ? 5 : 3)};
}

ActivationBackwardArgs ActivationBackwardArgs::bind(ActivationShape const& s, Binding const& b) {
  return {s.kind, s.gated, b.in(0).data, b.in(1).data, b.out(0).data, b.rows_here(s.rows), s.cols, b.precision};
}

}  // namespace shardbench
