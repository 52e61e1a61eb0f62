#pragma once
#include <string>

#include "harness/program/graph/residual.hpp"
#include "harness/program/graph/tape.hpp"

namespace shardbench {

/// norm(x) over whole rows.
Value norm(Tape& t, Value x, std::string const& name);
/// Adds what is pending to the residual stream and returns the norm of the sum.
Value norm(Tape& t, Residual& residual, std::string const& name);

/// A norm of vectors that lie side by side in rows (heads, or the first columns of a latent), for its backward pass.
struct VectorNorm {
  std::string name;
  ParameterId weight;
  NormShape shape;
  TensorRef x{}, mean{}, rstd{};
  Layout layout{};  ///< of the vectors: who has which
};

/// Norms `count` vectors of `cols` in each row by themselves, one weight [cols] for all; strides are the operands'.
VectorNorm vector_norm(Tape& t, std::string const& name, std::int64_t rows, std::int64_t count, std::int64_t cols,
                       TensorRef x, TensorRef y, Layout layout);
/// Writes dx from dy; called from the step that the caller taped.
void vector_norm_backward(Tape& t, VectorNorm const& forward, TensorRef dy, TensorRef dx);

}  // namespace shardbench
