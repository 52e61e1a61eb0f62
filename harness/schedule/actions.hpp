#pragma once
#include <span>
#include <vector>

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

/// Calls f(action) for each of them, a pair as its forward and its backward, what the forward made leaving between
/// them.
template <class F>
void each_without_pairs(std::span<Action const> actions, F&& f) {
  for (std::size_t i = 0; i < actions.size(); ++i) {
    Action const& a = actions[i];
    if (a.kind != ActionKind::pair) {
      f(a);
      continue;
    }
    f(forward(a.chunk, a.microbatch));
    bool const leaves = i + 1 < actions.size() && actions[i + 1].kind == ActionKind::send &&
                        actions[i + 1].boundary == Boundary::activation && actions[i + 1].chunk == a.chunk &&
                        actions[i + 1].microbatch == a.microbatch;
    if (leaves) f(actions[++i]);
    f(backward(a.pair_chunk, a.pair_microbatch));
  }
}

/// Pairs as their forward and their backward, what the forward made leaving between them.
std::vector<Action> without_pairs(std::vector<Action> const& actions);

}  // namespace shardbench
