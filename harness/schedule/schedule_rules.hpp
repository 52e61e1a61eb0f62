#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "harness/schedule/schedule.hpp"

namespace shardbench {

/// How the pieces of a model lie on the chunks of the stages.
enum class PieceLayout : std::uint8_t {
  round_robin,  ///< piece i on stage i % stages
  folded,       ///< two chunks a stage, up the stages and back: first and last piece share a stage
  both_ways,    ///< two chunks a stage, each direction a whole pipeline: every piece lies on two stages
};

/// Parts of a microbatch's work on one chunk, in any unit: forward, input gradient, weight gradient; a message.
struct PassTimes {
  double forward = 1, backward_input = 1, backward_weight = 1, transfer = 0;
  double backward() const { return backward_input + backward_weight; }
};

/// Numbers of a pipeline that closed forms are made of.
struct PipelineSize {
  double stages = 1;
  double chunks = 1;  ///< distinct pieces of the model on a stage
  double microbatches = 1;
};

/// Which microbatch counts a schedule takes on pp stages.
struct MicrobatchRule {
  bool (*fit)(std::int64_t pp, std::int64_t microbatches);
  std::string (*problem)(std::int64_t pp, std::int64_t microbatches);  ///< of a count that does not fit
};
inline constexpr MicrobatchRule any_microbatches{
    .fit = [](std::int64_t, std::int64_t) { return true; },
    .problem = [](std::int64_t, std::int64_t) { return std::string(); },
};

/// What the longest path through all the work of one stage knows: its passes, and those of the stages beside it.
struct StagePath {
  PipelineSize size;
  PassTimes own;           ///< of all chunks of the stage; transfer: what a message holds its receiver up
  double before = 0;       ///< stages before it
  double after = 0;        ///< stages after it
  double received = 0;     ///< the messages of one microbatch that the stage waits for
  double work = 0;         ///< passes and messages of all its microbatches one after the other
  double forward_all = 0;  ///< forward of all stages
  double forward_before = 0, input_before = 0, backward_before = 0;  ///< passes of the stages before it
  double forward_after = 0, input_after = 0, backward_after = 0;     ///< passes of the stages after it
};

/// All that there is to know of one schedule. No member has a default: a row that leaves one out does not compile.
struct ScheduleRules {
  std::string_view name;                     ///< as --schedule takes it
  std::string_view summary;                  ///< in a line
  std::string_view source;                   ///< who published it
  std::optional<std::string_view> megatron;  ///< its flag in Megatron-LM, a vpp behind it; empty: what runs without one
  std::string_view torchtitan;               ///< its name there; empty: it has none

  std::int32_t fixed_chunks;    ///< chunks a stage; 0: as many as vpp says, at least two
  PieceLayout layout;           ///< how the model's pieces lie on them
  bool even_stages;             ///< takes an even pp only
  MicrobatchRule microbatches;  ///< which counts a step may have
  bool splits_backward;         ///< input and weight gradients run apart
  bool (*sends_ahead)(std::int64_t stages, std::int64_t microbatches);  ///< see PipelineSchedule::sends_ahead
  bool planned;  ///< `plan` tries it unasked; false: another is as fast and holds less
  /// Fills schedule.order; stages, chunks and microbatches are set. Throws IllegalConfig where it has no such order.
  void (*order)(PipelineSchedule& schedule);

  /// Microbatches whose activations a stage holds at once, counted in whole stages.
  double (*in_flight)(PipelineSize const& size, double stage);
  std::string_view bubble_formula;  ///< the bubble as it is published; empty: only playing it tells
  /// Its value, with the passes of a whole stage; nothing where it does not hold.
  std::optional<double> (*bubble)(PipelineSize const& size, PassTimes const& stage);
  /// What a step takes at least when this stage holds it up: its work, what must run before, and what it must wait for.
  double (*longest_path)(StagePath const& stage);

  bool takes_vpp() const { return fixed_chunks == 0; }
  std::int64_t chunks_a_stage(std::int64_t vpp) const { return takes_vpp() ? vpp : fixed_chunks; }
  /// Distinct pieces of the model for each stage.
  std::int64_t pieces_a_stage(std::int64_t vpp) const { return mirrored() ? 1 : chunks_a_stage(vpp); }
  /// Every piece lies on two stages, a stage and its mirror_of: their gradients are summed.
  bool mirrored() const { return layout == PieceLayout::both_ways; }
  static std::int64_t mirror_of(std::int64_t stage, std::int64_t stages) { return stages - 1 - stage; }
  /// Chunks pass their output up the stages and down, so that one stage holds the first and the last piece.
  bool two_directions() const { return layout != PieceLayout::round_robin; }
};

ScheduleRules const& rules_of(ScheduleKind kind);

#define SHARDBENCH_RULES(name) extern ScheduleRules const name##_rules;
SHARDBENCH_SCHEDULES(SHARDBENCH_RULES)
#undef SHARDBENCH_RULES

/// The bubble of 1F1B, (p-1)(F+B), which GPipe shares.
std::optional<double> fill_and_drain(PipelineSize const& size, PassTimes const& stage);
/// The longest path of 1F1B and GPipe: `taken` microbatches run forward while the first one's gradient is awaited.
double fill_and_drain_path(StagePath const& stage, double taken);
bool never_sends_ahead(std::int64_t stages, std::int64_t microbatches);

}  // namespace shardbench
