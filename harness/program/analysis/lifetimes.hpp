#pragma once
#include <cstdint>
#include <vector>

#include "harness/program/analysis/memory_plan.hpp"

namespace shardbench {

/// Runs from the first to the last touch of one microbatch's instance of a tensor; -1 when it is never touched.
struct RunInterval {
  std::int64_t first = -1, last = -1;
};

/// Who touches which tensor when: within segments by op, over the step by run. Tensors are storage roots throughout.
class Lifetimes {
 public:
  Lifetimes(StepProgram const& program, Replay const& replay);
  Residence residence(TensorId id) const;
  /// Segments that the step really runs.
  std::vector<Segment const*> const& used_segments() const { return used_; }
  std::vector<TensorId> const& touched(Segment const& segment) const { return touches_[index_of(segment)].order; }
  /// First and last op of a segment that touches a tensor.
  std::pair<std::int64_t, std::int64_t> op_range(Segment const& segment, TensorId id) const;
  /// The op until which a temporary's memory stays taken: where communication uses it, at least the next compute op
  /// that waits for that communication. Throws Error when nobody waits for its last use.
  std::int64_t release(Segment const& segment, TensorId id) const;
  /// Slot tensors that the same segments and transfers touch live alike: a class of lifetimes for them all.
  struct SlotClass {
    std::vector<TensorId> tensors;
    std::vector<RunInterval> intervals;  ///< [microbatch]
    std::int64_t bytes = 0;              ///< of all its tensors
    bool freed_by_action = false;        ///< alive only between gather and free
  };
  std::vector<SlotClass> const& slot_classes() const { return classes_; }
  /// [microbatch] of a slot tensor.
  std::vector<RunInterval> const& intervals(TensorId id) const { return classes_[class_of_[id]].intervals; }
  /// Slot tensors whose chunk frees them by action (ZeRO-3): they are alive only between gather and free.
  bool freed_by_action(TensorId id) const;
  /// The runs from each of a chunk's gathers to the free that follows.
  std::vector<RunInterval> gathered(std::int32_t chunk) const;

 private:
  struct Touch {
    TensorId id = no_tensor;
    std::int64_t first = 0, last = 0;
    bool written_first = false;
    std::vector<std::int64_t> communication;  ///< ops of communication streams
  };
  struct SegmentTouches {
    std::vector<TensorId> order;   ///< as first touched
    std::vector<Touch> by_tensor;  ///< by rising id once scanned
  };
  std::ptrdiff_t index_of(Segment const& segment) const { return &segment - p_.segments.data(); }
  Touch const& touch_of(Segment const& segment, TensorId id) const;
  void scan(Segment const& segment, std::vector<std::int32_t>& position);
  /// The first compute op after `op` that waits for what it makes; -1 when none does.
  std::int64_t waiter(Segment const& segment, std::int64_t op) const;
  void find_classes(Replay const& replay);
  void find_intervals(Replay const& replay, std::vector<std::vector<std::int32_t>> const& met_by);

  StepProgram const& p_;
  Replay const& replay_;
  std::vector<Segment const*> used_;
  std::vector<SegmentTouches> touches_;  ///< by segment
  std::vector<Residence> residence_;
  std::vector<SlotClass> classes_;
  std::vector<std::int32_t> class_of_;  ///< [tensor] of a slot
};

/// What a walk over the step finds.
struct LivenessWalk {
  std::int64_t peak_bytes = 0;
  std::size_t peak_run = 0;
  std::int64_t kept_bytes = 0;  ///< the most alive between two runs, block inputs that the step is given included
  std::vector<std::int32_t> microbatches_in_flight;
};
LivenessWalk walk_liveness(StepProgram const& program, Replay const& replay, Lifetimes const& life);

}  // namespace shardbench
