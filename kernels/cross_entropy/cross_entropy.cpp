#include "kernels/cross_entropy/cross_entropy.hpp"

namespace shardbench {
namespace {

CrossEntropyShape logits(CrossEntropyOpShape const& s, Binding const& b) {
  return {b.in(0).data, b.in(1).as<std::int32_t>(), s.tokens, s.columns, s.first_column, s.valid_vocab, b.precision,
          s.softcap};
}

/// One pass over the logits and `statistics` numbers a token.
OpCost pass_cost(CrossEntropyOpShape const& s, CostContext const& context, double flops, double passes,
                 double statistics) {
  double const elements = elements_of(s.tokens, s.columns);
  return {flops * elements,
          passes * width_of(context.precision) * elements + statistics * fp32_bytes * static_cast<double>(s.tokens)};
}

}  // namespace

OpCost CrossEntropyMaxArgs::cost(CrossEntropyOpShape const& s, CostContext const& context) {
  return pass_cost(s, context, 1, 1, 1);
}

CrossEntropyMaxArgs CrossEntropyMaxArgs::bind(CrossEntropyOpShape const& s, Binding const& b) {
  return {logits(s, b), b.out(0).as<float>()};
}

OpCost CrossEntropySumArgs::cost(CrossEntropyOpShape const& s, CostContext const& context) {
  return pass_cost(s, context, 3, 1, 4);
}

CrossEntropySumArgs CrossEntropySumArgs::bind(CrossEntropyOpShape const& s, Binding const& b) {
  return {logits(s, b), b.in(2).as<float>(), b.out(0).as<float>()};
}

OpCost CrossEntropyLossArgs::cost(CrossEntropyOpShape const& s, CostContext const&) {
  return {3 * static_cast<double>(s.tokens), 3 * fp32_bytes * static_cast<double>(s.tokens)};
}

CrossEntropyLossArgs CrossEntropyLossArgs::bind(CrossEntropyOpShape const& s, Binding const& b) {
  return {logits(s, b), b.in(2).as<float>(), b.out(0).as<float>(), s.scale, b.adds};
}

OpCost CrossEntropyBackwardArgs::cost(CrossEntropyOpShape const& s, CostContext const& context) {
  return pass_cost(s, context, 3, 2, 3);
}

CrossEntropyBackwardArgs CrossEntropyBackwardArgs::bind(CrossEntropyOpShape const& s, Binding const& b) {
  return {logits(s, b), b.in(2).as<float>(), b.in(3).as<float>(), b.out(0).data, s.scale};
}

}  // namespace shardbench
