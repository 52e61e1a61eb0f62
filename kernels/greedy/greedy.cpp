#include "kernels/greedy/greedy.hpp"

namespace shardbench {

OpCost BestTokenArgs::cost(GreedyShape const& s, CostContext const& context) {
  double const logits = static_cast<double>(s.rows * s.columns);
  return {logits, logits * width_of(context.precision)};
}

BestTokenArgs BestTokenArgs::bind(GreedyShape const& s, Binding const& b) {
  return {b.in(0).data, b.out(0).as<float>(), s.rows, s.columns, s.first_column, b.vocab, b.precision};
}

OpCost PickTokenArgs::cost(GreedyShape const& s, CostContext const&) {
  double const choices = elements_of(s.parts, s.rows);
  return {choices, fp32_bytes * (2 * choices + static_cast<double>(s.rows))};
}

PickTokenArgs PickTokenArgs::bind(GreedyShape const& s, Binding const& b) {
  return {b.in(0).as<float>(), b.out(0).as<std::int32_t>(), s.parts, s.rows};
}

}  // namespace shardbench
