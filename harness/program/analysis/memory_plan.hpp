#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harness/program/analysis/replay.hpp"

namespace shardbench {

/// How a tensor's bytes are kept: for the whole run, one slot per microbatch in flight, or within one segment.
enum class Residence : std::uint8_t { unused, persistent, slot, temporary };

/// Where every tensor of a rank lies in its arena, and the bytes alive over the step by a liveness walk.
struct MemoryPlan {
  struct Place {
    Residence residence = Residence::unused;
    std::int64_t offset = 0;  ///< bytes into the arena of instance 0
    std::int64_t stride = 0;  ///< bytes between instances
    std::int32_t instances = 1;
    std::int32_t first_instance = 0;        ///< number of instance 0 among all instances of the program
    std::vector<std::int32_t> instance_of;  ///< [microbatch] for slots and per-microbatch buffers; empty: always 0
    /// Number of a microbatch's instance among this tensor's, and among all, for the hazard tracker.
    std::int32_t own_instance(std::int32_t microbatch) const {
      return instance_of.empty() ? 0 : instance_of[microbatch];
    }
    std::int32_t instance(std::int32_t microbatch) const { return first_instance + own_instance(microbatch); }
  };
  std::vector<Place> places;  ///< by tensor; views have their root's place
  std::int64_t arena_bytes = 0;
  std::int32_t instance_count = 0;
  /// Bytes by role: what lives as long as the run.
  std::int64_t parameter_bytes = 0, gradient_bytes = 0, optimizer_bytes = 0, buffer_bytes = 0, kv_cache_bytes = 0;
  /// The most activation and temporary bytes alive at once, op by op, and the run at which that is.
  std::int64_t activation_peak_bytes = 0;
  /// Of these, what is kept for backward between the runs, with the block inputs that the step is given.
  std::int64_t kept_activation_bytes = 0;
  std::size_t peak_run = 0;
  /// The most microbatches whose activations are alive at once, by chunk.
  std::vector<std::int32_t> microbatches_in_flight;
  std::int64_t peak_bytes() const {
    return parameter_bytes + gradient_bytes + optimizer_bytes + buffer_bytes + kv_cache_bytes + activation_peak_bytes;
  }
  /// Arena offset (bytes) of a tensor for a microbatch.
  std::int64_t offset_of(StepProgram const& program, TensorId id, std::int32_t microbatch) const;
};

/// Planners that this process has made: what a command is held to is one a stage.
inline std::atomic<std::int64_t> memory_plans_made{0};

/// Makes a plan as far as it is asked for: each part once.
class MemoryPlanner {
 public:
  /// Both must outlive this, and stay where they are.
  MemoryPlanner(StepProgram const& program, Replay const& replay);
  ~MemoryPlanner();
  /// What waits for what: residences and instances.
  MemoryPlan const& instances();
  /// How much: bytes by role, instances of each tensor and the liveness walk.
  MemoryPlan const& sizes();
  /// All of it, with places in the arena. Throws Error when a segment leaves a temporary in use by a stream nobody
  /// waits for.
  MemoryPlan const& whole();
  /// What is there of it so far; the planner makes nothing more.
  MemoryPlan take() &&;

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

MemoryPlan plan_memory(StepProgram const& program, Replay const& replay);
MemoryPlan plan_instances(StepProgram const& program, Replay const& replay);
MemoryPlan plan_sizes(StepProgram const& program, Replay const& replay);

/// The largest tensors alive at the peak, biggest first: name, bytes (all instances together).
std::vector<std::pair<std::string, std::int64_t>> largest_tensors(StepProgram const& program, MemoryPlan const& plan,
                                                                  std::size_t count);

}  // namespace shardbench
