#include "harness/evaluate/op_rates.hpp"

#include "harness/program/analysis/count.hpp"

namespace shardbench {

std::int64_t group_ranks(StepProgram const& program, LabelId label) {
  for (Segment const& segment : program.segments)
    for (Op const& op : segment.ops)
      if (op.group.valid() && op.label == label) return std::ssize(program.groups[op.group].members);
  return 0;
}

void set_op_rates(OpsRow& row, OpKind kind, std::int64_t ranks, double call_us) {
  double const seconds = 1e-6 * call_us;
  if (seconds <= 0) return;
  if (ranks == 0) {
    if (row.flops.value_or(0) > 0) row.tflops = *row.flops / seconds / 1e12;
    return;
  }
  if (!row.bytes) return;
  row.algbw_gb_per_s = *row.bytes / seconds / 1e9;
  row.busbw_gb_per_s = ranks > 1 ? ring_wire_bytes(kind, *row.bytes, ranks) / seconds / 1e9 : 0;
}

}  // namespace shardbench
