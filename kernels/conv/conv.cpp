#include "kernels/conv/conv.hpp"

namespace shardbench {

OpCost Im2colArgs::cost(WindowShape const& w, CostContext const& context) {
  return {0, static_cast<double>(w.in_elements() + w.out_elements() * w.taps()) * width_of(context.precision)};
}

Im2colArgs Im2colArgs::bind(WindowShape const& w, Binding const& b) {
  return {w, b.in(0).data, b.out(0).data, b.precision};
}

OpCost Col2imArgs::cost(WindowShape const& w, CostContext const& context) {
  OpCost cost = Im2colArgs::cost(w, context);
  cost.flops = static_cast<double>(w.out_elements() * w.taps());
  return cost;
}

Col2imArgs Col2imArgs::bind(WindowShape const& w, Binding const& b) {
  return {w, b.in(0).data, b.out(0).data, b.precision};
}

OpCost DepthwiseForwardArgs::cost(WindowShape const& w, CostContext const& context) {
  return product_cost(2 * static_cast<double>(w.taps() * w.out_elements()),
                      static_cast<double>(w.in_elements() + w.out_elements()) * width_of(context.precision));
}

DepthwiseForwardArgs DepthwiseForwardArgs::bind(WindowShape const& w, Binding const& b) {
  return {w, b.in(0).data, b.in(1).data, b.out(0).data, b.precision};
}

OpCost DepthwiseBackwardArgs::cost(WindowShape const& w, CostContext const& context) {
  return product_cost(4 * static_cast<double>(w.taps() * w.out_elements()),
                      static_cast<double>(2 * w.in_elements() + w.out_elements()) * width_of(context.precision));
}

DepthwiseBackwardArgs DepthwiseBackwardArgs::bind(WindowShape const& w, Binding const& b) {
  return {w, b.in(0).data, b.in(1).data, b.in(2).data, b.out(0).data, b.out(1).as<float>(), b.adds, b.precision};
}

}  // namespace shardbench
