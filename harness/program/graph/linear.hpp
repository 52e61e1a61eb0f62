#pragma once
#include "harness/program/graph/parameters.hpp"
#include "harness/program/graph/tape.hpp"

namespace shardbench {

/// y = x W^T + bias, cut as the strategy says for the weight's role.
Value linear(Tape& t, Value x, LinearSpec const& spec);

/// The weight and bias of a linear layer, and how the weight lies along tp.
struct LinearWeights {
  ParameterId weight, bias;
  Placement placement = Replicate{};
};

/// Emits the gradients of weight and bias from `dy` and the input, `rows` of them that lie in `rows_layout`.
void weight_gradients(Tape& t, LinearSpec const& spec, LinearWeights const& w, TensorRef dy, TensorRef input,
                      std::int64_t rows, Layout rows_layout);

}  // namespace shardbench
