#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "harness/schedule/schedule.hpp"
#include "harness/simulate/channel.hpp"

namespace shardbench {

/// What moves sharded states of a chunk's parameters beside its passes.
enum class ShardTraffic : std::uint8_t {
  none,           ///< nothing during the passes
  gather_first,   ///< weights are gathered during the first forward
  reduce_every,   ///< each backward's gradients are cut, and weights gathered first where told (ZeRO 2)
  gather_always,  ///< weights are gathered for each pass, each backward's gradients are cut (ZeRO 3)
};

/// Times of a chunk of a stage; milliseconds.
struct ChunkTimes {
  double forward = 0, backward_input = 0, backward_weight = 0;  ///< a whole backward takes both of the latter
  double activation_in = 0, gradient_in = 0;                    ///< the messages that its passes wait for
  double output_share =
      0;            ///< of a pass, from when it writes its output on, which waits for the output before to leave
  double lead = 0;  ///< of a backward pass, what it does before it needs its message (recomputation)
  double gather = 0, reduce = 0;  ///< of all parameters, where the traffic says that passes know of it
  double pieces = 1;              ///< layers, gathered one after the other
  double parts = 1;               ///< collectives that a reduction is cut into
  double backward() const { return backward_input + backward_weight; }
};

/// The order of work of every stage without what the walk adds by itself: messages.
struct WalkOrder {
  struct Entry {
    ActionKind kind;  ///< forward, backward, backward_input, backward_weight
    std::int16_t chunk;
    bool opens_pair;  ///< the receives of the pass after it are posted with its own
  };
  PipelineSchedule shape;                   ///< without its order
  std::vector<std::vector<Entry>> entries;  ///< [stage]
  std::size_t size() const;
};
WalkOrder walk_order(PipelineSchedule schedule);

/// When a stage was done with what.
struct StageEnd {
  double compute = 0;           ///< the last pass
  double traffic = 0;           ///< the last gather or reduction beside the passes
  std::vector<double> last_at;  ///< [chunk] when the pass began that finished its weight gradients
  std::vector<double> last_ms;  ///< [chunk] how long that pass took
};

/// Plays orders of passes with rendezvous messages by the rules of the event simulation (simulate), a pass being one
/// time: what a schedule takes by itself. Keeps its memory from walk to walk.
class ScheduleWalk {
 public:
  /// `times`: [stage * chunks + chunk]. `receives_ahead`: receives are posted a pass before they are needed.
  std::vector<StageEnd> const& walk(WalkOrder const& order, std::vector<ChunkTimes> const& times, ShardTraffic traffic,
                                    bool receives_ahead);

 private:
  static constexpr std::int32_t nowhere = -1;
  struct Place {
    std::int32_t activation_from = nowhere, gradient_from = nowhere;  ///< channels; nowhere: the stage itself or none
    std::int32_t activation_to = nowhere, gradient_to = nowhere;
    std::size_t sent[2] = {0, 0};  ///< past its last message on its channel: activations, gradients
    bool gathered = false;         ///< its first weights
  };
  struct Stage {
    double free = 0, before = 0;  ///< compute, and when its last pass began
    double traffic = 0;
    std::size_t at = 0;
    std::size_t awaited = 0;  ///< the message under way, if posted
    bool posted = false;
    std::size_t awaited_next = 0;  ///< that of the second pass of a pair, if posted with the first's
    bool posted_next = false;
  };

  void connect(PipelineSchedule const& shape);
  bool advance(std::size_t stage);
  bool pass(Stage& stage, std::size_t place, WalkOrder::Entry const& entry);
  /// When the message that an entry waits for is there; negative while its sender has not got to it.
  double arrival(Stage& stage, std::int32_t channel, bool forward, double ms);
  void post_second(Stage& stage, std::size_t place);
  double end_of_pass(Stage& stage, std::size_t place, ActionKind kind, double start);

  WalkOrder const* order_ = nullptr;
  std::vector<ChunkTimes> const* times_ = nullptr;
  ShardTraffic traffic_ = ShardTraffic::none;
  bool receives_ahead_ = false, sends_ahead_ = false;
  std::vector<Place> places_;
  std::vector<Stage> stages_;
  std::vector<Channel> channels_;
  std::vector<StageEnd> ends_;
};

}  // namespace shardbench
