#include "bench/shardbench/bus_rate.hpp"

#include "harness/comm/bus_bandwidth.hpp"

namespace shardbench {
namespace {

CommCall call_of(OpKind kind) {
  switch (kind) {
    case OpKind::all_reduce:
      return CommCall::all_reduce;
    case OpKind::reduce_scatter:
      return CommCall::reduce_scatter;
    case OpKind::all_gather:
      return CommCall::all_gather;
    case OpKind::all_to_all:
      return CommCall::all_to_all;
    default:
      return CommCall::send_receive;
  }
}

}  // namespace

double bus_rate(OpKind kind, std::int64_t ranks, double payload_bytes, double seconds) {
  return busbw_gb_per_s(call_of(kind), static_cast<int>(ranks), payload_bytes, seconds);
}

}  // namespace shardbench
