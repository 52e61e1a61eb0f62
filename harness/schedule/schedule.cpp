#include "harness/schedule/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/schedule/actions.hpp"
#include "harness/schedule/schedule_rules.hpp"
#include "kernels/core/error.hpp"
#include "kernels/core/index.hpp"

namespace shardbench {

std::string_view to_string(ActionKind kind) {
  static constexpr EnumNames<ActionKind> names{"F",    "I",      "W",   "B",    "PAIR", "R",   "GATHER",
                                               "FREE", "REDUCE", "ADD", "SEND", "RECV", "OPT", "D"};
  return names[kind];
}

std::int32_t PipelineSchedule::pieces() const { return rules_of(kind).mirrored() ? stages : stages * chunks; }

std::int32_t PipelineSchedule::piece_of(ChunkPlace place) const {
  PieceLayout const layout = rules_of(kind).layout;
  if (layout == PieceLayout::round_robin) return place.chunk * stages + place.stage;
  return place.chunk == 0 ? place.stage : (layout == PieceLayout::folded ? 2 * stages : stages) - 1 - place.stage;
}

std::optional<ChunkPlace> PipelineSchedule::beside(ChunkPlace place, std::int32_t step) const {
  std::int32_t const piece = piece_of(place) + step;
  if (piece < 0 || piece == pieces()) return std::nullopt;
  switch (rules_of(kind).layout) {
    case PieceLayout::round_robin:
      break;
    case PieceLayout::folded:
      return piece < stages ? ChunkPlace{piece, 0} : ChunkPlace{2 * stages - 1 - piece, 1};
    // Each direction is a pipeline of its own: chunk 0 runs up the ranks, chunk 1 down.
    case PieceLayout::both_ways:
      return ChunkPlace{place.stage + (place.chunk == 0 ? step : -step), place.chunk};
  }
  return ChunkPlace{piece % stages, piece / stages};
}

bool PipelineSchedule::sends_ahead() const { return rules_of(kind).sends_ahead(stages, microbatches); }

bool PipelineSchedule::has_two_directions() const { return rules_of(kind).two_directions(); }

bool PipelineSchedule::splits_backward() const {
  return std::ranges::any_of(order, [](std::vector<Action> const& actions) {
    return std::ranges::find(actions, ActionKind::backward_input, &Action::kind) != actions.end();
  });
}

PipelineSchedule make_schedule(ScheduleKind kind, std::int64_t stages, std::int64_t chunks, std::int64_t microbatches) {
  auto const require = [](bool ok, std::string const& message) {
    if (!ok) throw IllegalConfig(message);
  };
  require(stages >= 1, fmt::format("pp: {} is not >= 1", stages));
  require(microbatches >= 1, fmt::format("microbatches: {} is not >= 1", microbatches));
  require(chunks >= 1, fmt::format("vpp: {} is not >= 1", chunks));
  require(stages <= 1 << 16 && microbatches <= 1 << 20 && chunks <= 1 << 10,
          fmt::format("schedule: pp {}, vpp {} or microbatches {} beyond 65536, 1024, 1048576", stages, chunks,
                      microbatches));
  ScheduleRules const& rules = rules_of(kind);
  PipelineSchedule s{.kind = kind,
                     .stages = static_cast<std::int32_t>(stages),
                     .chunks = static_cast<std::int32_t>(rules.chunks_a_stage(chunks)),
                     .microbatches = static_cast<std::int32_t>(microbatches),
                     .order = std::vector<std::vector<Action>>(stages)};
  rules.order(s);
  return s;
}

namespace {

/// The transfer before (receive) or after (send) a pass, where its tensor comes from or goes to another stage.
void push_transfer(PipelineSchedule const& s, ActionKind transfer, Action const& pass, ChunkPlace here,
                   std::vector<Action>& out) {
  bool const forward = pass.kind == ActionKind::forward;
  if (!forward && pass.kind != ActionKind::backward && pass.kind != ActionKind::backward_input) return;
  auto const other = forward == (transfer == ActionKind::send) ? s.next(here) : s.previous(here);
  if (!other || other->stage == here.stage) return;
  out.push_back({.kind = transfer,
                 .chunk = pass.chunk,
                 .microbatch = pass.microbatch,
                 .peer = other->stage,
                 .boundary = forward ? Boundary::activation : Boundary::gradient});
}

}  // namespace

std::vector<Action> without_pairs(std::vector<Action> const& actions) {
  std::vector<Action> out;
  out.reserve(2 * actions.size());
  each_without_pairs(actions, [&](Action const& a) { out.push_back(a); });
  return out;
}

void add_transfers(PipelineSchedule& schedule) {
  for (std::int32_t stage = 0; stage < schedule.stages; ++stage) {
    std::vector<Action>& actions = schedule.order[stage];
    std::vector<Action> out;
    out.reserve(actions.size() * 2);
    for (Action const& action : actions) {
      auto const transfer = [&](ActionKind kind) {
        each_without_pairs({&action, 1}, [&](Action const& pass) {
          push_transfer(schedule, kind, pass, {stage, pass.chunk}, out);
        });
      };
      transfer(ActionKind::receive);
      out.push_back(action);
      transfer(ActionKind::send);
    }
    actions = std::move(out);
  }
}

}  // namespace shardbench
