#pragma once
#include <optional>
#include <string_view>

#include "harness/comm/communicator.hpp"
#include "harness/exec/operands.hpp"
#include "harness/exec/routed_counts.hpp"
#include "harness/record/timeline.hpp"

namespace shardbench {

/// One communication, ready to run on its queue.
struct PreparedCall {
  OpKind kind = OpKind::all_reduce;
  BufferView from, to;
  std::vector<std::size_t> send_counts, receive_counts;  ///< elements by peer of an all-to-all of routed rows
  ReduceOp reduce = ReduceOp::sum;
  int peer = -1, tag = 0;
  Communicator* communicator = nullptr;
  Communicator* verifier = nullptr;  ///< ranks compare the call on it first, unless nullptr
  Stream* stream = nullptr;
  GroupId group;
  std::uint64_t order = 0;       ///< of the call among its group's
  Timeline* timeline = nullptr;  ///< spans are kept when given
  Lane lane = Lane::tp;
  std::uint32_t label = 0, wait_label = 0;
  std::string_view name;
  std::int32_t microbatch = 0;

  /// Makes the call (on the queue's own thread on the host).
  void run() const;

 private:
  void call() const;
  void verify() const;
};

/// Operands of a communication op; communicator, queue and timeline are the caller's to fill in.
PreparedCall prepare_call(Op const& op, Operands const& operands, std::optional<RoutedCounts> const& counts = {});

}  // namespace shardbench
