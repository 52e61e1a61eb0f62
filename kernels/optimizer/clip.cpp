#include "kernels/optimizer/clip.hpp"

namespace shardbench {

OpCost ClipFactorArgs::cost(ClipShape const&, CostContext const&) { return {4, 2 * fp32_bytes}; }

ClipFactorArgs ClipFactorArgs::bind(ClipShape const& s, Binding const& b) {
  return {b.in(0).as<float>(), b.out(0).as<float>(), s.max_norm};
}

}  // namespace shardbench
