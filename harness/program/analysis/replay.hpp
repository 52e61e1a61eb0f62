#pragma once
#include <vector>

#include "harness/program/step_program.hpp"

namespace shardbench {

/// One entry of a rank's step as it happens: a segment replayed for a microbatch, or a transfer.
struct Run {
  Segment const* segment = nullptr;  ///< nullptr for transfers and frees
  Op const* transfer = nullptr;      ///< the send or receive op of a transfer
  ActionKind kind = ActionKind::forward;
  std::int32_t chunk = 0;
  std::int32_t microbatch = 0;
  bool first[2] = {false, false};  ///< by BackwardPart: first run of its chunk that has ops of the part
  bool last[2] = {false, false};
  /// Whether an op of the segment takes part in this run.
  bool runs(Op const& op) const {
    auto const part = static_cast<std::size_t>(op.part);
    return op.when == When::every || (op.when == When::first ? first[part] : last[part]);
  }
  /// Whether an op adds to its output in this run.
  bool adds(Op const& op) const {
    return op.always_accumulate || (op.accumulate && !first[static_cast<std::size_t>(op.part)]);
  }
};

/// The whole step of a rank in issue order; pairs are played one after the other. Points into `program`, which must
/// outlive it.
class Replay {
 public:
  explicit Replay(StepProgram const& program);
  std::vector<Run> const& runs() const { return runs_; }
  /// The different transfers, which runs point to.
  std::vector<Op> const& transfers() const { return transfers_; }
  /// Index of the first run of the optimizer (what comes before is forward, backward and reductions).
  std::size_t optimizer_begin() const { return optimizer_begin_; }

 private:
  void add_segment(StepProgram const& program, ActionKind kind, std::int32_t chunk, std::int32_t microbatch);
  void add_transfer(StepProgram const& program, Action const& action);
  void mark_first_and_last(StepProgram const& program);

  std::vector<Run> runs_;
  std::vector<Op> transfers_;               ///< one per (chunk, kind, boundary), reserved so that pointers stay
  std::vector<Op const*> transfer_at_;      ///< [chunk][pipeline stream] into transfers_
  std::vector<Segment const*> segment_at_;  ///< [chunk + 1][action kind], as far as met
  std::size_t optimizer_begin_ = 0;
};

/// The queue of a transfer.
StreamId pipeline_stream(ActionKind kind, Boundary boundary, std::int32_t direction);

}  // namespace shardbench
