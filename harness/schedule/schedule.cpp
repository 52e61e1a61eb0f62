#include "harness/schedule/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "harness/schedule/schedule_generators.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

std::string_view to_string(ScheduleKind kind) {
  constexpr std::array<std::string_view, 6> names{"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe"};
  static_assert(names.size() == static_cast<std::size_t>(ScheduleKind::size_));
  return names.at(static_cast<std::size_t>(kind));
}

bool microbatches_fit(ScheduleKind schedule, std::int64_t pp, std::int64_t microbatches) {
  if (schedule == ScheduleKind::interleaved) return microbatches % pp == 0;
  if (schedule == ScheduleKind::dualpipe) return microbatches % 2 == 0 && microbatches >= 2 * pp;
  return true;
}

std::string microbatches_problem(ScheduleKind schedule, std::int64_t pp, std::int64_t microbatches) {
  if (microbatches_fit(schedule, pp, microbatches)) return {};
  std::string_view const name = to_string(schedule);
  if (schedule == ScheduleKind::interleaved)
    return fmt::format("schedule: {} microbatches are not a multiple of pp {} ({}); legal: multiples of {}",
                       microbatches, pp, name, pp);
  return fmt::format("schedule: {} microbatches given, {} needs an even number of at least 2*pp = {}", microbatches,
                     name, 2 * pp);
}

std::string_view to_string(ActionKind kind) {
  constexpr std::array<std::string_view, 14> names{"F",    "I",      "W",   "B",    "PAIR", "R",   "GATHER",
                                                   "FREE", "REDUCE", "ADD", "SEND", "RECV", "OPT", "D"};
  static_assert(names.size() == static_cast<std::size_t>(ActionKind::size_));
  return names[static_cast<std::size_t>(kind)];
}

std::int32_t PipelineSchedule::pieces() const { return kind == ScheduleKind::dualpipe ? stages : stages * chunks; }

std::int32_t PipelineSchedule::piece_of(ChunkPlace place) const {
  switch (kind) {
    case ScheduleKind::zb_v:
      return place.chunk == 0 ? place.stage : 2 * stages - 1 - place.stage;
    case ScheduleKind::dualpipe:
      return place.chunk == 0 ? place.stage : stages - 1 - place.stage;
    default:
      return place.chunk * stages + place.stage;
  }
}

std::optional<ChunkPlace> PipelineSchedule::next(ChunkPlace place) const {
  std::int32_t const piece = piece_of(place) + 1;
  if (piece == pieces()) return std::nullopt;
  switch (kind) {
    case ScheduleKind::zb_v:
      return piece < stages ? ChunkPlace{piece, 0} : ChunkPlace{2 * stages - 1 - piece, 1};
    // Each direction of DualPipe is a pipeline of its own: chunk 0 runs up the ranks, chunk 1 down.
    case ScheduleKind::dualpipe:
      return place.chunk == 0 ? ChunkPlace{place.stage + 1, 0} : ChunkPlace{place.stage - 1, 1};
    default:
      return ChunkPlace{piece % stages, piece / stages};
  }
}

std::optional<ChunkPlace> PipelineSchedule::previous(ChunkPlace place) const {
  std::int32_t const piece = piece_of(place) - 1;
  if (piece < 0) return std::nullopt;
  switch (kind) {
    case ScheduleKind::zb_v:
      return piece < stages ? ChunkPlace{piece, 0} : ChunkPlace{2 * stages - 1 - piece, 1};
    case ScheduleKind::dualpipe:
      return place.chunk == 0 ? ChunkPlace{place.stage - 1, 0} : ChunkPlace{place.stage + 1, 1};
    default:
      return ChunkPlace{piece % stages, piece / stages};
  }
}

bool PipelineSchedule::splits_backward() const {
  for (auto const& actions : order)
    if (std::ranges::any_of(actions, [](Action const& a) { return a.kind == ActionKind::backward_input; })) return true;
  return false;
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
  PipelineSchedule s{kind, static_cast<std::int32_t>(stages), 1, static_cast<std::int32_t>(microbatches), {}};
  switch (kind) {
    case ScheduleKind::gpipe:
      order_gpipe(s);
      break;
    case ScheduleKind::one_f_one_b:
      order_1f1b(s);
      break;
    case ScheduleKind::interleaved: {
      s.chunks = static_cast<std::int32_t>(chunks);
      auto const rounds = std::max<std::int64_t>(1, microbatches / stages);
      require(microbatches % rounds == 0, fmt::format("interleaved: {} microbatches do not fall into {} equal rounds "
                                                      "of about pp={} (legal: multiples of pp, or up to 2*pp-1)",
                                                      microbatches, rounds, stages));
      order_interleaved(s);
      break;
    }
    case ScheduleKind::zb_h1:
      order_zb_h1(s);
      break;
    case ScheduleKind::zb_v:
      s.chunks = 2;
      order_zb_v(s);
      break;
    case ScheduleKind::dualpipe:
      require(stages % 2 == 0, fmt::format("dualpipe: pp={} must be even", stages));
      require(microbatches_fit(kind, stages, microbatches), microbatches_problem(kind, stages, microbatches));
      s.chunks = 2;
      order_dualpipe(s);
      break;
    case ScheduleKind::size_:
      break;
  }
  return s;
}

namespace {

void push_receives(PipelineSchedule const& s, std::int32_t stage, ActionKind kind, std::int32_t chunk,
                   std::int32_t microbatch, std::vector<Action>& out) {
  bool const forward = kind == ActionKind::forward;
  auto const source = forward ? s.previous({stage, chunk}) : s.next({stage, chunk});
  if (!source || source->stage == stage) return;
  out.push_back({.kind = ActionKind::receive,
                 .chunk = chunk,
                 .microbatch = microbatch,
                 .peer = source->stage,
                 .boundary = forward ? Boundary::activation : Boundary::gradient});
}

void push_sends(PipelineSchedule const& s, std::int32_t stage, ActionKind kind, std::int32_t chunk,
                std::int32_t microbatch, std::vector<Action>& out) {
  bool const forward = kind == ActionKind::forward;
  auto const target = forward ? s.next({stage, chunk}) : s.previous({stage, chunk});
  if (!target || target->stage == stage) return;
  out.push_back({.kind = ActionKind::send,
                 .chunk = chunk,
                 .microbatch = microbatch,
                 .peer = target->stage,
                 .boundary = forward ? Boundary::activation : Boundary::gradient});
}

}  // namespace

void add_transfers(PipelineSchedule& schedule) {
  for (std::int32_t stage = 0; stage < schedule.stages; ++stage) {
    auto& actions = schedule.order[static_cast<std::size_t>(stage)];
    std::vector<Action> out;
    out.reserve(actions.size() * 2);
    for (Action const& action : actions) {
      bool const moves = action.kind == ActionKind::forward || action.kind == ActionKind::backward ||
                         action.kind == ActionKind::backward_input;
      if (action.kind == ActionKind::pair) {
        push_receives(schedule, stage, ActionKind::forward, action.chunk, action.microbatch, out);
        push_receives(schedule, stage, ActionKind::backward, action.pair_chunk, action.pair_microbatch, out);
        out.push_back(action);
        push_sends(schedule, stage, ActionKind::forward, action.chunk, action.microbatch, out);
        push_sends(schedule, stage, ActionKind::backward, action.pair_chunk, action.pair_microbatch, out);
        continue;
      }
      if (moves) push_receives(schedule, stage, action.kind, action.chunk, action.microbatch, out);
      out.push_back(action);
      if (moves) push_sends(schedule, stage, action.kind, action.chunk, action.microbatch, out);
    }
    actions = std::move(out);
  }
}

}  // namespace shardbench
