#pragma once
// Shorthand for tests that lower and count.
#include <functional>

#include "harness/program/analysis/count.hpp"
#include "harness/program/passes/lower.hpp"
#include "tests/harness/exec/small_models.hpp"

namespace shardbench::test {

inline StepCount counted(StepProgram const& p) { return count_step(p, Replay(p)); }
inline AxisTraffic on(StepCount const& c, Axis axis) { return c.traffic[static_cast<std::size_t>(axis)]; }

/// Calls visit(op, adds) for every op of the step, transfers left out.
inline void for_each_op(StepProgram const& p, std::function<void(Op const&, Run const&)> const& visit) {
  Replay const replay(p);
  for (Run const& run : replay.runs())
    if (run.segment)
      for (Op const& op : run.segment->ops)
        if (run.runs(op)) visit(op, run);
}

/// Payload bytes of the step's collectives with this name ("" for all) on an axis, by kind.
inline double payload_of(StepProgram const& p, Axis axis, OpKind kind, std::string const& name = "") {
  double bytes = 0;
  for_each_op(p, [&](Op const& op, Run const&) {
    if (op.group < 0 || op.kind != kind || p.groups[static_cast<std::size_t>(op.group)].axis != axis) return;
    std::string const& label = p.labels[static_cast<std::size_t>(op.label)].name;
    if (name.empty() || label == name || (name.front() == '.' && label.ends_with(name)))
      bytes += collective_payload(p, op);
  });
  return bytes;
}

}  // namespace shardbench::test
