#include "kernels/router/router.hpp"

namespace shardbench {
namespace {

/// The logits are passed over `passes` times; the weights and indices of what is chosen once.
OpCost routing_cost(RouterShape const& s, CostContext const& context, double passes) {
  double const logits = elements_of(s.tokens, s.rule.experts);
  return {8 * logits,
          width_of(context.precision) * logits * passes + 2 * fp32_bytes * elements_of(s.tokens, s.rule.top_k)};
}

}  // namespace

OpCost RouterForwardArgs::cost(RouterShape const& s, CostContext const& context) { return routing_cost(s, context, 1); }

RouterForwardArgs RouterForwardArgs::bind(RouterShape const& s, Binding const& b) {
  PrescribedChoice const prescribed{b.in(2).as<std::int32_t>(), b.in(3).as<std::int32_t>(), s.period, s.rotation};
  return {s.rule,   prescribed,   b.in(0).data, b.in(1).as<float>(), b.out(0).as<float>(), b.out(1).as<std::int32_t>(),
          s.tokens, b.in(0).dtype};
}

OpCost RouterBackwardArgs::cost(RouterShape const& s, CostContext const& context) {
  return routing_cost(s, context, 2);
}

RouterBackwardArgs RouterBackwardArgs::bind(RouterShape const& s, Binding const& b) {
  return {s.rule,   b.in(0).data, b.in(1).as<std::int32_t>(), b.in(2).as<float>(), b.out(0).data,
          s.tokens, b.in(0).dtype};
}

}  // namespace shardbench
