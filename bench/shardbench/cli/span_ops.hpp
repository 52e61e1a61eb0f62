#pragma once
#include <vector>

#include "harness/program/analysis/replay.hpp"
#include "harness/record/timeline.hpp"

namespace shardbench {

/// A span, and which op of which run of the step it was.
struct OpSpan {
  Span span;
  Op const* op = nullptr;    ///< nullptr: the order of the spans does not tell
  Run const* run = nullptr;  ///< with `op`
};

/// The spans of a rank, as simulated or measured, with their ops: on each lane both come in the order of issue,
/// messages by their microbatch. Pointers go into `program` and `replay`.
std::vector<OpSpan> spans_with_ops(StepProgram const& program, Replay const& replay, std::vector<Span> const& spans);

}  // namespace shardbench
