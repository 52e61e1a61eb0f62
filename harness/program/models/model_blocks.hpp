#pragma once
#include "harness/program/graph/graph_builder.hpp"

namespace shardbench {

/// The residual stream: a value and a branch output that the next norm (or the chunk's end) adds to it.
struct Residual {
  Value base;
  Value pending;
};

/// Builds one block of a language model at the builder's layer: attention and MLP (or experts), one after the other or
/// side by side, with the norms that its family has. What is left to add to the stream becomes `stream.pending`.
void build_block(GraphBuilder& builder, ModelConfig const& model, std::int64_t layer, Residual& stream);

/// The dense MLP of `width`, its weights named `name`.up and `name`.down ("mlp").
Value mlp_branch(GraphBuilder& builder, ModelConfig const& model, Value x, std::int64_t width, std::string const& name);

}  // namespace shardbench
