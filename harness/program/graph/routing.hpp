#pragma once
#include <string>

#include "harness/program/graph/tape.hpp"

namespace shardbench {

/// Sizes of one expert layer on this rank, in rows, and where its routing lies.
struct Routing {
  std::int64_t tokens = 0, slots = 0;  ///< rows of the input, and how many rows each of them sends
  std::int64_t sent = 0, bound = 0;    ///< rows that may leave, and that may arrive
  double expected_sent = 0, expected = 0, imbalance = 1;
  std::int64_t peers = 1, copies = 1, local_experts = 0, capacity = 0;
  RouterShape router;
  TensorRef weights, indices;  ///< [tokens, top_k] of the choice
  TensorRef rows, counts;      ///< places of the rows, and how many go to and come from each peer and expert
  TensorRef arrivals;          ///< places of the rows that arrived, where they must be sorted
};

/// Emits the choice of the router for `tokens` rows, and what says where each row goes.
Routing route(Tape& t, Value logits, std::int64_t tokens);
/// Emits the gradient of the logits from that of the choice's weights.
void router_gradient(Tape& t, Value logits, Routing const& r, TensorRef dweights);

/// A temporary of at most `bound` rows, of which counts expect `expected`.
TensorRef routed_rows(Tape& t, std::string const& name, std::int64_t bound, double expected, std::int64_t cols);
/// Tokens to their rows (permute), or rows to their tokens (unpermute), with the choice's weights when given.
TensorRef move_rows(Tape& t, OpKind kind, TensorRef from, TensorRef weights, Routing const& r, std::string const& name);
/// What permute, unpermute and combine_weights of the tokens work on.
PermuteShape token_rows(Tape const& t, Routing const& r);

/// sigmoid(x w) * y for each token, y brought to x's layout; w is a parameter [1, hidden].
Value gate(Tape& t, Value y, Value x, std::string const& name);

}  // namespace shardbench
