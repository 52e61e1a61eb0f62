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
  EnumArray<BackwardPart, bool> first{}, last{};  ///< of the runs of its chunk that have ops of the part
  /// Whether an op of the segment takes part in this run.
  bool runs(Op const& op) const {
    return op.when == When::every || (op.when == When::first ? first[op.part] : last[op.part]);
  }
  /// Whether an op adds to its output in this run.
  bool adds(Op const& op) const { return op.always_accumulate || (op.accumulate && !first[op.part]); }
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
  // Made in its place: a run put together elsewhere and copied in waits for each of its small fields.
  Run& add_run(ActionKind kind, std::int32_t chunk, std::int32_t microbatch) {
    Run& run = runs_.emplace_back();
    run.kind = kind, run.chunk = chunk, run.microbatch = microbatch;
    return run;
  }
  void add_segment(StepProgram const& program, ActionKind kind, std::int32_t chunk, std::int32_t microbatch);
  void add_transfer(StepProgram const& program, Action const& action);
  void mark_first_and_last(StepProgram const& program);

  std::vector<Run> runs_;
  std::vector<Op> transfers_;  ///< one per (chunk, kind, boundary), reserved so that pointers stay
  std::vector<EnumArray<StreamId, Op const*>> transfer_at_;        ///< [chunk] into transfers_
  std::vector<EnumArray<ActionKind, Segment const*>> segment_at_;  ///< [chunk + 1], as far as met
  std::vector<std::int32_t> directions_;                           ///< [chunk] of its transfers
  std::size_t optimizer_begin_ = 0;
};

/// The queue of a transfer.
StreamId pipeline_stream(ActionKind kind, Boundary boundary, std::int32_t direction);

/// Kinds of message between stages: activation or gradient, in either direction of the pipeline.
inline constexpr std::int32_t message_kinds = 4;
/// The first of the pipeline queues that receive; those before it send.
inline constexpr StreamId first_receive = static_cast<StreamId>(static_cast<int>(StreamId::pipeline) + message_kinds);
/// What a pipeline queue carries, the same number on both sides of a message.
constexpr std::int32_t message_kind(StreamId stream) {
  return (static_cast<std::int32_t>(stream) - static_cast<std::int32_t>(StreamId::pipeline)) % message_kinds;
}

}  // namespace shardbench
