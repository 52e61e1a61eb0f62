#include "bench/shardbench/cli/span_ops.hpp"

#include <utility>

#include "harness/program/lane.hpp"

namespace shardbench {
namespace {

Lane lane_of_op(StepProgram const& program, Op const& op) {
  bool const computes = !op.group.valid() || op.stream == StreamId::compute;
  return computes ? Lane::compute : lane_of(program.groups[op.group].axis);
}

/// The ops of a step lane by lane, in order of issue; messages between stages are not among them.
EnumArray<Lane, std::vector<std::pair<Op const*, Run const*>>> issued_ops(StepProgram const& program,
                                                                          Replay const& replay) {
  EnumArray<Lane, std::vector<std::pair<Op const*, Run const*>>> issued;
  for (Run const& run : replay.runs()) {
    if (!run.segment) continue;
    for (Op const& op : run.segment->ops)
      if (run.runs(op) && op.stream < StreamId::pipeline) issued[lane_of_op(program, op)].emplace_back(&op, &run);
  }
  return issued;
}

}  // namespace

std::vector<OpSpan> spans_with_ops(StepProgram const& program, Replay const& replay, std::vector<Span> const& spans) {
  auto const issued = issued_ops(program, replay);
  EnumArray<Lane, std::size_t> next{};
  std::vector<OpSpan> out;
  out.reserve(spans.size());
  for (Span const& span : spans) {
    OpSpan placed{span};
    std::size_t& at = next[span.lane];
    if (span.label < program.labels.size() && at < issued[span.lane].size()) {
      auto const [op, run] = issued[span.lane][at];
      if (static_cast<std::uint32_t>(op->label) == span.label) placed.op = op, placed.run = run;
      ++at;
    }
    out.push_back(placed);
  }
  return out;
}

}  // namespace shardbench
