#pragma once
#include "harness/schedule/schedule.hpp"

namespace shardbench {

/// Entries of an order, as generators write them.
inline Action forward(std::int32_t chunk, std::int32_t microbatch) {
  return {.kind = ActionKind::forward, .chunk = chunk, .microbatch = microbatch};
}
inline Action backward(std::int32_t chunk, std::int32_t microbatch) {
  return {.kind = ActionKind::backward, .chunk = chunk, .microbatch = microbatch};
}

inline bool is_transfer(Action const& action) {
  return action.kind == ActionKind::send || action.kind == ActionKind::receive;
}

/// Pairs as their forward and their backward, what the forward made leaving between them.
std::vector<Action> without_pairs(std::vector<Action> const& actions);

}  // namespace shardbench
