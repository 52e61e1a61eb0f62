#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "harness/comm/communicator.hpp"
#include "harness/exec/given_values.hpp"
#include "harness/exec/launch_comm.hpp"
#include "harness/exec/launch_compute.hpp"
#include "harness/program/analysis/hazards.hpp"
#include "harness/program/lowered_step.hpp"
#include "harness/record/timeline.hpp"

namespace shardbench {

struct RunnerOptions {
  bool verify_collectives = false;  ///< ranks compare kind, size, group and order before each collective
  bool skip_communication =
      false;  ///< one rank of many runs alone: its compute at full size, on values that mean nothing
  OptimizerSettings optimizer;
  std::shared_ptr<GivenValues> given{};  ///< weights and tokens that are not drawn
};

/// A stream of the device and the events that mark its last operations.
struct StreamQueue {
  static constexpr std::int64_t history = 256;
  std::unique_ptr<Stream> stream;
  std::array<std::unique_ptr<Event>, history> events;

  /// The event of an operation by its number on the stream; an old number shares the event of a later operation, which
  /// was issued before whoever waits for it, so no wait can go round in a circle.
  Event& event(Device& device, std::int64_t sequence) {
    auto& slot = events[sequence % history];
    if (!slot) slot = device.make_event(false);
    return *slot;
  }
};

/// Runs a rank's StepProgram on a device and communicators: one arena, one compute stream, a queue per communicating
/// axis. Ranks call the same methods in the same order.
class Runner {
 public:
  /// Splits `world` (for the device's memory; size 1 for an unsharded program) into the program's groups; allocates the
  /// arena. Throws OutOfMemory and IllegalConfig (an op without a kernel).
  Runner(LoweredStage stage, Device& device, Communicator& world, RunnerOptions options = {});
  ~Runner();

  /// Fills weights, optimizer states and inputs from the counter-based generator, by global element index, or from
  /// what is given.
  void initialize(std::uint64_t seed);
  /// Everything before the optimizer; returns when it is issued.
  void run_gradients();
  /// The optimizer's `step`-th update, from 1.
  void run_optimizer(std::int64_t step);
  /// Why a step cannot be captured as one graph here; empty when it can.
  std::string graph_problem() const;
  /// Captures a whole step, the optimizer's with the number `step`; from then on launch_graph() runs it, and the other
  /// run_*() may be used again after a synchronize(). Run a step before: what is made at first use must be there.
  void capture_graph(std::int64_t step);
  void launch_graph();
  /// Waits for all streams; rethrows what failed there.
  void synchronize();
  /// Spans and NVTX ranges go to `timeline` until it is taken away (nullptr): timed iterations have none.
  void set_timeline(Timeline* timeline) { timeline_ = timeline; }

  /// Called after each op of the compute stream is issued, with its microbatch, until nullptr is set.
  using Watch = std::function<void(Op const& op, std::int32_t microbatch)>;
  void set_watch(Watch watch) { watch_ = std::move(watch); }
  /// read() within a watch: waits for the compute stream alone, so that nobody waits for a message of a later op.
  std::vector<float> peek(TensorId id, std::int32_t microbatch);

  /// Values of a tensor (one microbatch's instance) as float; for tests, checks and the loss.
  std::vector<float> read(TensorId id, std::int32_t microbatch = 0);
  void write(TensorId id, std::span<float const> values, std::int32_t microbatch = 0);
  /// Inference: where the next step stands, 0 to program().context; its tokens are those of the generator at that
  /// position once set_prompt is called, and else what was chosen before.
  void set_position(std::int64_t position);
  void set_prompt(std::uint64_t seed);
  /// Values of an integer tensor (token ids).
  std::vector<std::int32_t> read_tokens(TensorId id, std::int32_t microbatch = 0);
  LoweredStage const& stage() const { return stage_; }
  StepProgram const& program() const { return program_; }
  Device& device() { return device_; }
  /// Payload that the communicators counted, by billed axis, since the start.
  EnumArray<Axis, Traffic> traffic() const;
  /// Spans that only await a message carry labels from here on.
  static constexpr std::uint32_t wait_label = 0x80000000u;

 private:
  /// What talks to the ranks of a group; nothing where this rank is alone or outside.
  struct GroupCalls {
    std::unique_ptr<Communicator> communicator, verifier;
    std::uint64_t made = 0;  ///< collectives, for verification
  };

  void split_groups(Communicator& world);
  void split_edges(Communicator& world);
  Communicator* channel_of(Op const& op, PreparedCall& call);
  void play(Run const& run, std::int64_t step);
  void issue(Op const& op, Run const& run, std::int64_t step);
  void order(Op const& op, Run const& run);
  void communicate(Op const& op, Run const& run);
  /// Brings the counts of a routing to the host and waits for them: what follows is sized by them.
  void fetch_counts(Op const& op, Run const& run, Operands const& operands, Stream& stream);
  std::optional<RoutedCounts> counts_of(Op const& op, Run const& run) const;
  StreamQueue& queue(StreamId stream);
  void forget_order();
  void fill_parameters(std::uint64_t seed);
  void fill_inputs(std::uint64_t seed);
  void fill_drawn(std::uint64_t seed);
  void fill_borders(std::uint64_t seed);
  void fill_constants(std::uint64_t seed);
  template <class RowOf>
  void fill_rows(TensorId id, std::uint64_t key, float scale, RowOf row_of);
  /// Elements as they lie in a tensor of T, once the compute stream is there.
  template <class T>
  std::vector<T> take(TensorId id, std::int32_t microbatch) {
    std::vector<T> values(program_.tensors[id].elements());
    Stream& stream = *queue(StreamId::compute).stream;
    device_.copy_to_host(values.data(), Operands(program_, plan_, arena_, microbatch).at({id, 0, 0}),
                         values.size() * sizeof(T), stream);
    stream.synchronize();
    return values;
  }
  template <class T>
  void put(TensorId id, std::span<T const> values, std::int32_t microbatch) {
    Stream& stream = *queue(StreamId::compute).stream;
    device_.copy_from_host(Operands(program_, plan_, arena_, microbatch).at({id, 0, 0}), values.data(),
                           values.size() * sizeof(T), stream);
    stream.synchronize();
  }

  std::int64_t position_ = 0;  ///< of inference
  LoweredStage stage_;
  StepProgram const& program_;
  Device& device_;
  RunnerOptions options_;
  Replay const& replay_;
  MemoryPlan const& plan_;
  Arena arena_;
  HazardTracker tracker_;
  std::vector<std::vector<std::int32_t>> host_counts_;  ///< by instance of a counts tensor
  EnumArray<StreamId, std::unique_ptr<StreamQueue>> queues_;
  EnumArray<GroupKind, GroupCalls> groups_;
  /// By (message tag, edge): pairs of neighbouring stages, where a back end has no tags to tell messages apart.
  std::map<std::pair<std::int32_t, std::int64_t>, std::unique_ptr<Communicator>> edges_;
  Timeline* timeline_ = nullptr;
  Watch watch_;
  std::unique_ptr<Graph> graph_;
  std::uint64_t seed_ = 0, passes_ = 0;  ///< passes over the data since initialize
};

/// This rank's part of the loss of the last step (0 on ranks without the head).
double local_loss(Runner& runner);

}  // namespace shardbench
