#pragma once
#include <array>
#include <vector>

#include "harness/program/analysis/memory_plan.hpp"
#include "kernels/core/cost.hpp"

namespace shardbench {

/// FLOPs and minimal bytes of one op as its kernel does them; communication has none (see collective_payload).
OpCost op_cost(StepProgram const& program, Op const& op, bool adds);

/// FLOPs that count as model FLOPs: matrix products and attention, attention over the pairs that the mask lets through,
/// or over all pairs with `full_attention` (the two conventions that published MFU figures use).
double model_flops(StepProgram const& program, Op const& op, bool full_attention);

/// Bytes handed to the communicator by one op on this rank, under balanced routing.
double collective_payload(StepProgram const& program, Op const& op);

/// Bytes a ring of `ranks` moves over this rank's link for that payload: 2(n-1)/n for all-reduce, (n-1)/n for the other
/// collectives, all of it for messages (formulas: traffic per rank).
double ring_wire_bytes(OpKind kind, double payload, std::int64_t ranks);

/// Traffic of one rank along one axis in one step.
struct AxisTraffic {
  std::int64_t calls = 0;
  double payload_bytes = 0;
  double wire_bytes = 0;
};

/// Work of one op label over one step.
struct LabelCount {
  std::int64_t count = 0;
  double bytes = 0;  ///< moved in memory, or payload for communication
  double flops = 0;
};

/// What one rank does in one step, counted from its program.
struct StepCount {
  double model_flops = 0;       ///< causal attention at visible pairs, recompute excluded
  double model_flops_full = 0;  ///< causal attention counted whole, recompute excluded
  double hardware_flops = 0;    ///< model_flops plus what is recomputed
  double memory_bytes = 0;      ///< minimal bytes moved by all compute ops
  EnumArray<Axis, AxisTraffic> traffic{};
  std::int64_t parameters = 0;     ///< held by this rank, copies included
  std::vector<LabelCount> labels;  ///< by op label; the last entry is the pipeline transfers
};

StepCount count_step(StepProgram const& program, Replay const& replay);

}  // namespace shardbench
