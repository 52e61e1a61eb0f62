#include "kernels/embedding/embedding.hpp"

namespace shardbench {

OpCost EmbeddingForwardArgs::cost(EmbeddingShape const& s, CostContext const& context) {
  double const elements = elements_of(s.tokens, s.cols);
  return {context.adds ? elements : 0.0, width_of(context.precision) * elements * (context.adds ? 3 : 2)};
}

EmbeddingForwardArgs EmbeddingForwardArgs::bind(EmbeddingShape const& s, Binding const& b) {
  return {b.in(0).as<std::int32_t>(),
          b.in(1).data,
          b.out(0).data,
          s.tokens,
          s.rows,
          s.cols,
          s.first_row,
          b.adds,
          b.precision,
          s.scale};
}

OpCost EmbeddingBackwardArgs::cost(EmbeddingShape const& s, CostContext const& context) {
  double const elements = elements_of(s.tokens, s.cols);
  return {elements, (width_of(context.precision) + 2 * fp32_bytes) * elements +
                        (context.adds ? 0.0 : fp32_bytes * elements_of(s.rows, s.cols))};
}

EmbeddingBackwardArgs EmbeddingBackwardArgs::bind(EmbeddingShape const& s, Binding const& b) {
  return {b.in(0).as<std::int32_t>(),
          b.in(1).data,
          b.out(0).as<float>(),
          s.tokens,
          s.rows,
          s.cols,
          s.first_row,
          b.adds,
          b.precision,
          s.scale};
}

}  // namespace shardbench
