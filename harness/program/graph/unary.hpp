#pragma once
#include <string>
#include <vector>

#include "harness/program/graph/tape.hpp"

namespace shardbench {

/// An op of one value and its backward op, over the same shape.
struct UnaryOp {
  OpKind forward, backward;
  OpShape shape;
  bool reads_input = false;        ///< backward reads dy and x; else dy
  std::vector<TensorRef> saved{};  ///< written behind y by the forward op, read behind dy by the backward op
};

/// Emits y = op(x) and tapes its backward.
void unary(Tape& t, UnaryOp const& op, Value x, Value y, std::string const& name);

/// The activation of an MLP, gated where the model's is; `columns` are those of all ranks.
Value activation(Tape& t, Value up, std::int64_t columns);

}  // namespace shardbench
