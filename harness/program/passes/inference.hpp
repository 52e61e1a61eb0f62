#pragma once
#include "harness/program/graph/tape.hpp"

namespace shardbench {

/// Puts the weights of a chunk, from `first_parameter` on, into one bucket: no gradients, no optimizer states.
void add_weight_bucket(Tape& tape, std::int32_t chunk, ParameterId first_parameter);

/// Orders the actions of inference: each microbatch's forward as in `order`, and its next token back to the first stage
/// when decoding.
void order_inference(Tape& tape, std::vector<Action> const& order);

/// Bytes of KV cache that one more token of one sample takes on this rank.
std::int64_t kv_bytes_per_token(StepProgram const& program);

}  // namespace shardbench
