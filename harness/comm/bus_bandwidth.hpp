#pragma once
// algbw = S / time; busbw = algbw * factor (nccl-tests doc/PERFORMANCE.md). S is the payload of Communicator's Traffic.
// Pure.
#include <cstdint>
#include <string_view>

#include "kernels/core/index.hpp"

namespace shardbench {

/// The calls of a Communicator that move data.
enum class CommCall : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  broadcast,
  send_receive,
  size_
};

constexpr std::string_view to_string(CommCall call) {
  constexpr EnumNames<CommCall> names{"all_reduce", "reduce_scatter", "all_gather",
                                      "all_to_all", "broadcast",      "send_receive"};
  return names[call];
}

/// Bytes that cross the busiest link of a ring per byte of payload, over `ranks` ranks; 0 for a group of one, where
/// nothing crosses.
constexpr double bus_factor(CommCall call, int ranks) {
  if (ranks <= 1) return 0;
  double const n = ranks;
  switch (call) {
    case CommCall::all_reduce:
      return 2 * (n - 1) / n;
    case CommCall::reduce_scatter:
    case CommCall::all_gather:
    case CommCall::all_to_all:
      return (n - 1) / n;
    case CommCall::broadcast:
    case CommCall::send_receive:
    case CommCall::size_:
      break;
  }
  return 1;
}

/// GB/s (1e9 bytes) of payload; 0 when no time passed.
constexpr double algbw_gb_per_s(double payload_bytes, double seconds) {
  return seconds > 0 ? payload_bytes / seconds / 1e9 : 0;
}

/// GB/s on the busiest link of a ring. With in-switch reduction or a tree it may exceed the link: then it is
/// "effective".
constexpr double busbw_gb_per_s(CommCall call, int ranks, double payload_bytes, double seconds) {
  return algbw_gb_per_s(payload_bytes, seconds) * bus_factor(call, ranks);
}

/// Share of an all-to-all's payload that leaves a node when ranks are spread evenly over `nodes` nodes: (N-1)/N. Times
/// algbw it is the rate a node's network carries per rank.
constexpr double remote_share(int nodes) { return nodes > 1 ? (nodes - 1.0) / nodes : 0; }

}  // namespace shardbench
