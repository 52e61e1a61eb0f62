#pragma once
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "harness/program/memory_plan.hpp"

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
  std::vector<TensorId> const& touched(Segment const& segment) const { return touches_.at(&segment).order; }
  /// First and last op of a segment that touches a tensor.
  std::pair<std::int64_t, std::int64_t> op_range(Segment const& segment, TensorId id) const;
  /// The op until which a temporary's memory stays taken: where communication uses it, at least the next compute op that
  /// waits for that communication. Throws Error when nobody waits for its last use.
  std::int64_t release(Segment const& segment, TensorId id) const;
  /// [microbatch] of a slot tensor.
  std::vector<RunInterval> const& intervals(TensorId id) const { return intervals_.at(id); }
  std::map<TensorId, std::vector<RunInterval>> const& all_intervals() const { return intervals_; }
  /// Slot tensors whose chunk frees them by action (ZeRO-3): they are alive only between gather and free.
  bool freed_by_action(TensorId id) const;
  /// The runs from each of a chunk's gathers to the free that follows.
  std::vector<RunInterval> gathered(std::int32_t chunk) const;

 private:
  struct Touch {
    std::int64_t first = 0, last = 0;
    bool written_first = false;
    std::vector<std::int64_t> communication;  ///< ops of communication streams
  };
  struct SegmentTouches {
    std::unordered_map<TensorId, Touch> by_tensor;
    std::vector<TensorId> order;
  };
  void touch(SegmentTouches& touches, TensorId id, std::int64_t op, bool writes, bool communicates) const;
  void scan(Segment const& segment);
  /// The first compute op after `op` that waits for what it makes; -1 when none does.
  std::int64_t waiter(Segment const& segment, std::int64_t op) const;
  void find_intervals(Replay const& replay);

  StepProgram const& p_;
  Replay const& replay_;
  std::vector<Segment const*> used_;
  std::map<Segment const*, SegmentTouches> touches_;
  std::vector<Residence> residence_;
  std::map<TensorId, std::vector<RunInterval>> intervals_;
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
