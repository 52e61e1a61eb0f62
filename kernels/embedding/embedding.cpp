#include "kernels/embedding/embedding.hpp"

namespace shardbench {
namespace {

/// Ids, the other side's rows and `out`.
template <class Args, class Out>
Args bind_lookup(EmbeddingShape const& s, Binding const& b, Out* out) {
  auto const* const ids = b.in(0).as<std::int32_t>();
  return {ids, b.in(1).data, out, s.tokens, s.rows, s.cols, s.first_row, b.adds, b.precision, s.scale};
}

}  // namespace

OpCost EmbeddingForwardArgs::cost(EmbeddingShape const& s, CostContext const& context) {
  double const elements = elements_of(s.tokens, s.cols);
  return {context.adds ? elements : 0.0, width_of(context.precision) * elements * (context.adds ? 3 : 2)};
}

EmbeddingForwardArgs EmbeddingForwardArgs::bind(EmbeddingShape const& s, Binding const& b) {
  return bind_lookup<EmbeddingForwardArgs>(s, b, b.out(0).data);
}

OpCost EmbeddingBackwardArgs::cost(EmbeddingShape const& s, CostContext const& context) {
  double const elements = elements_of(s.tokens, s.cols);
  return {elements, (width_of(context.precision) + 2 * fp32_bytes) * elements +
                        (context.adds ? 0.0 : fp32_bytes * elements_of(s.rows, s.cols))};
}

EmbeddingBackwardArgs EmbeddingBackwardArgs::bind(EmbeddingShape const& s, Binding const& b) {
  return bind_lookup<EmbeddingBackwardArgs>(s, b, b.out(0).as<float>());
}

}  // namespace shardbench
