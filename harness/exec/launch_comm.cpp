#include "harness/exec/launch_comm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "harness/comm/verify.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

/// Messages that announce a sender, so that a receiver's waiting and its transfer are told apart.
constexpr int announcement = 64;

}  // namespace

PreparedCall prepare_call(Op const& op, Operands const& data, std::optional<RoutedCounts> const& counts) {
  auto const& s = std::get<CollectiveShape>(op.shape);
  std::size_t const count = s.count;
  PreparedCall call;
  call.kind = op.kind;
  call.reduce = s.reduce == PartialOp::max ? ReduceOp::max : ReduceOp::sum;
  call.peer = op.peer, call.tag = op.tag;
  if (!op.inputs.empty()) call.from = {data.at(op.inputs[0]), count, s.dtype};
  if (!op.outputs.empty()) call.to = {data.at(op.outputs[0]), count, s.dtype};
  if (s.routed_cols == 0) return call;
  // Rows as they were routed: out by what this rank sends, and back by what it was sent.
  for (std::int64_t peer = 0; peer < counts->peers(); ++peer) {
    std::int64_t const sent = counts->sent(peer) * s.routed_cols, received = counts->received(peer) * s.routed_cols;
    call.send_counts.push_back(s.returning ? received : sent);
    call.receive_counts.push_back(s.returning ? sent : received);
  }
  call.from.count = std::accumulate(call.send_counts.begin(), call.send_counts.end(), std::size_t{0});
  call.to.count = std::accumulate(call.receive_counts.begin(), call.receive_counts.end(), std::size_t{0});
  return call;
}

void PreparedCall::verify() const {
  bool const message = kind == OpKind::send || kind == OpKind::receive;
  if (!verifier || message) return;
  // What each rank sends of routed rows is its own.
  verify_same_call(*verifier, {to_string(kind), send_counts.empty() ? from.bytes() : 0,
                               static_cast<std::uint64_t>(std::int32_t{group}), order});
}

void PreparedCall::call() const {
  int const size = communicator->size();
  auto const share = [&](BufferView whole) { return BufferView{whole.data, whole.count / size, whole.dtype}; };
  switch (kind) {
    case OpKind::all_reduce:
      return communicator->all_reduce(to, reduce, *stream);
    case OpKind::reduce_scatter:
      return communicator->reduce_scatter(from, share(to), *stream);
    case OpKind::all_gather:
      return communicator->all_gather(share(from), to, *stream);
    case OpKind::all_to_all: {
      std::vector<std::size_t> const equal(size, from.count / size);
      bool const routed = !send_counts.empty();
      return communicator->all_to_all(from, routed ? send_counts : equal, to, routed ? receive_counts : equal, *stream);
    }
    case OpKind::ring_shift: {
      // To the next rank, from the one before; both in one call, so that no ring waits for itself.
      std::vector<std::size_t> to_next(size, 0), from_previous(size, 0);
      int const rank = communicator->rank();
      to_next[(rank + 1) % size] = from.count;
      from_previous[(rank + size - 1) % size] = to.count;
      return communicator->all_to_all(from, to_next, to, from_previous, *stream);
    }
    case OpKind::send:
      return communicator->send(from, peer, tag, *stream);
    case OpKind::receive:
      return communicator->receive(to, peer, tag, *stream);
    default:
      throw Error(fmt::format("{} is no communication", to_string(kind)));
  }
}

void PreparedCall::run() const {
  verify();
  if (!timeline) return call();
  auto const first = [](BufferView const& all) {
    return BufferView{all.data, std::min<std::size_t>(1, all.count), all.dtype};
  };
  // Its first element goes ahead: when it is there, so is the sender.
  if (kind == OpKind::send) communicator->send(first(from), peer, tag + announcement, *stream);
  if (kind == OpKind::receive) {
    std::size_t const wait = timeline->open(lane, wait_label | label, microbatch, *stream);
    communicator->receive(first(to), peer, tag + announcement, *stream);
    timeline->close(wait, *stream);
  }
  double const bytes = static_cast<double>(kind == OpKind::receive ? to.bytes() : from.bytes());
  trace_push(lane, name.data(), bytes);
  std::size_t const span = timeline->open(lane, label, microbatch, *stream);
  call();
  timeline->close(span, *stream);
  trace_pop();
}

}  // namespace shardbench
