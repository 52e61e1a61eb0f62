#pragma once
#include <cstdint>
#include <map>
#include <tuple>

#include "harness/config/experiment.hpp"
#include "harness/simulate/cost_model.hpp"

namespace shardbench {

/// Network times that a planner asks for again and again, each computed once; milliseconds. Not for use by several
/// threads at once.
class NetworkMemo {
 public:
  explicit NetworkMemo(CostModel const& model) : model_(model) {}
  /// `parts` equal collectives of `bytes` together, one after the other, over ranks 0, stride, 2 stride, ...
  double collective_ms(OpKind kind, double bytes, std::int64_t stride, std::int64_t ranks, double parts);
  /// A message while each rank of the receiver's tensor-parallel group gets one of its own.
  double message_ms(std::int64_t from, std::int64_t to, std::int64_t tp, double bytes);

 private:
  CostModel const& model_;
  std::map<std::tuple<OpKind, double, std::int64_t, std::int64_t, double>, double> collectives_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, double>, double> messages_;
};

/// Bytes of one gradient on the network: of the run's type, which where it is fp32 the stack may send in fewer.
double sent_gradient_bytes(Experiment const& base, SoftwareStack const& stack);

}  // namespace shardbench
