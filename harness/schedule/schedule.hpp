#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardbench {

/// Every schedule; what there is to know of each stands in one object, NAME_rules (schedule_rules.hpp).
#define SHARDBENCH_SCHEDULES(ROW) ROW(gpipe) ROW(one_f_one_b) ROW(interleaved) ROW(zb_h1) ROW(zb_v) ROW(dualpipe)

enum class ScheduleKind : std::uint8_t {
#define SHARDBENCH_ENUMERATOR(name) name,
  SHARDBENCH_SCHEDULES(SHARDBENCH_ENUMERATOR)
#undef SHARDBENCH_ENUMERATOR
      size_
};
std::string_view to_string(ScheduleKind kind);

/// What a step has where nothing else is asked for, and where there is no pipeline to schedule.
inline constexpr ScheduleKind plain_schedule = ScheduleKind::one_f_one_b;

/// Why so many microbatches do not suit a schedule, with what does; empty where they do.
std::string microbatches_problem(ScheduleKind schedule, std::int64_t pp, std::int64_t microbatches);

/// What a rank may be told to do. `backward` is input and weight gradients together; `pair` overlaps a forward with a
/// backward of another chunk; gather, free and reduce move ZeRO-3 parameters between their sharded and full states, and
/// add takes what a reduction made to the shard's sum.
enum class ActionKind : std::uint8_t {
  forward,
  backward_input,
  backward_weight,
  backward,
  pair,
  recompute,
  gather,
  free,
  reduce,
  add,
  send,
  receive,
  optimizer,
  decode,
  size_
};
std::string_view to_string(ActionKind kind);

/// Which boundary tensor a send or receive moves: activations go to the next piece, their gradients to the previous.
enum class Boundary : std::uint8_t { none, activation, gradient };

/// One entry of a rank's order of work.
struct Action {
  ActionKind kind = ActionKind::forward;
  std::int32_t chunk = 0;  ///< local chunk of the rank
  std::int32_t microbatch = 0;
  std::int32_t pair_chunk = -1;        ///< pair: the chunk that runs backward
  std::int32_t pair_microbatch = -1;   ///< pair: its microbatch
  std::int32_t peer = -1;              ///< send, receive: pipeline rank of the other side
  Boundary boundary = Boundary::none;  ///< send, receive
  bool operator==(Action const&) const = default;
};

/// A chunk on a pipeline rank.
struct ChunkPlace {
  std::int32_t stage = 0;
  std::int32_t chunk = 0;
  bool operator==(ChunkPlace const&) const = default;
};

/// A pipeline schedule as data: what each stage does, in order, and how the model's pieces lie on stages and chunks.
struct PipelineSchedule {
  ScheduleKind kind = plain_schedule;
  std::int32_t stages = 1;
  std::int32_t chunks = 1;                 ///< per stage
  std::int32_t microbatches = 1;           ///< per step, over all chunks
  std::vector<std::vector<Action>> order;  ///< [stage], compute actions only until add_transfers()

  /// Model pieces: stages * chunks, or the stages where every piece lies on two of them.
  std::int32_t pieces() const;
  /// The piece that a chunk holds, 0 first in the model.
  std::int32_t piece_of(ChunkPlace place) const;
  /// The chunk that takes over this one's output, or nothing after the last piece.
  std::optional<ChunkPlace> next(ChunkPlace place) const { return beside(place, 1); }
  std::optional<ChunkPlace> previous(ChunkPlace place) const { return beside(place, -1); }
  /// Stages run ahead of their receivers (rounds longer than the pipeline, zero-bubble orders): what is sent then needs
  /// a buffer for each microbatch until its gradient comes back, or sender and receiver wait for one another.
  bool sends_ahead() const;
  /// Transfers of its chunks run up the stages and down, each in a stream of its own.
  bool has_two_directions() const;
  /// True when this order splits backward into input and weight parts anywhere.
  bool splits_backward() const;

 private:
  std::optional<ChunkPlace> beside(ChunkPlace place, std::int32_t step) const;
};

/// Builds a schedule. `chunks` is read where the schedule takes a vpp, others have their own number. Throws
/// IllegalConfig naming the rule that stages, chunks and microbatches break.
PipelineSchedule make_schedule(ScheduleKind kind, std::int64_t stages, std::int64_t chunks, std::int64_t microbatches);

/// Inserts a receive before each action that needs another stage's tensor and a send after each that makes one.
void add_transfers(PipelineSchedule& schedule);

/// A line per stage: "F0.0 F0.1 B0.0 ..." (kind, chunk, microbatch; a pair is "F0.5&B1.2"); parse_schedule reads it
/// back.
std::string to_text(PipelineSchedule const& schedule);
/// Throws InputError with line and column for anything to_text could not have written.
PipelineSchedule parse_schedule(std::string_view text);

}  // namespace shardbench
