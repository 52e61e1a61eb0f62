#pragma once
#include <optional>
#include <string>

#include "harness/program/graph/residual.hpp"
#include "harness/program/graph/tape.hpp"

namespace shardbench {

/// norm(x) over whole rows; `eps`: the model's where it is not given.
Value norm(Tape& t, Value x, std::string const& name, std::optional<float> eps = {});
/// Adds what is pending to the residual stream and returns the norm of the sum.
Value norm(Tape& t, Residual& residual, std::string const& name, std::optional<float> eps = {});

/// What the backward op of a norm reads of the forward op.
struct NormOp {
  std::string name;
  NormShape shape;
  Layout layout;             ///< of the vectors that are normed: who has which
  ParameterId weight, bias;  ///< bias: where the norm has one
  TensorRef x{}, mean{}, rstd{};
};

/// Norms `count` vectors of `cols` that lie side by side in each row (heads, or the first columns of a latent) by
/// themselves, one weight [cols] for all; strides are the operands'.
NormOp vector_norm(Tape& t, std::string const& name, std::int64_t rows, std::int64_t count, std::int64_t cols,
                   TensorRef x, TensorRef y, Layout const& layout, std::optional<float> eps = {});
/// Writes dx from dy, added to `dsum` when given; called from a step that the caller taped.
void norm_backward(Tape& t, NormOp const& n, TensorRef dy, TensorRef dx, TensorRef dsum = {});

}  // namespace shardbench
