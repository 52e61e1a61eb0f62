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

}  // namespace shardbench
