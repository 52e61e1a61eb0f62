// Rules about what was asked for, beside what is legal: flags that contradict each other, and flags that change
// nothing.
#include <fmt/format.h>

#include <array>

#include "harness/config/experiment.hpp"

namespace shardbench {
namespace {

using Lines = std::vector<std::string>;

/// Ranks that hold copies of a weight: what ZeRO and gradient buckets work on. Experts have copies of their own.
bool has_copies(Experiment const& e) {
  Cut const& c = e.cut;
  return c.dp * c.cp > 1 || (e.model.moe && c.tp > c.etp * c.ep);
}

/// A knob, and the axis without which it changes nothing.
struct Knob {
  std::string_view flag, off;  ///< `off`: the value that asks for nothing; empty when every value asks for something
  std::string_view axis, needs;
  bool (*works)(Experiment const& e);
};

bool has_tp(Experiment const& e) { return e.cut.tp > 1; }
bool has_cp(Experiment const& e) { return e.cut.cp > 1; }
bool has_pp(Experiment const& e) { return e.cut.pp > 1; }
bool has_peers(Experiment const& e) { return e.cut.ranks() > 1; }

constexpr std::array knobs{
    Knob{"zero", "0", "dp 1", "dp or cp >= 2", has_copies},
    Knob{"shard-ranks", "", "dp 1", "dp or cp >= 2", has_copies},
    Knob{"zero-keep", "none", "dp 1", "dp or cp >= 2", has_copies},
    Knob{"bucket-mb", "", "dp 1", "dp or cp >= 2", has_copies},
    Knob{"sequence-parallel", "false", "tp 1", "tp >= 2", has_tp},
    Knob{"tp-sync-fraction", "1", "tp 1", "tp >= 2", has_tp},
    Knob{"tp-overlap", "none", "tp 1", "tp >= 2", has_tp},
    Knob{"strategy", "", "tp 1", "tp >= 2", has_tp},
    Knob{"cp-method", "", "cp 1", "cp >= 2", has_cp},
    Knob{"schedule", "", "pp 1", "pp >= 2", has_pp},
    Knob{"verify-collectives", "false", "one rank", "ranks >= 2", has_peers},
    Knob{"share-gpu", "false", "one rank", "ranks >= 2", has_peers},
    Knob{"nccl-algo", "auto", "one rank", "ranks >= 2", has_peers},
    Knob{"nccl-proto", "auto", "one rank", "ranks >= 2", has_peers},
    Knob{"nccl-channels", "0", "one rank", "ranks >= 2", has_peers},
};

void add_capacity(Experiment const& e, Lines& lines) {
  if (!e.model.moe || e.capacity == 0) return;
  MoeConfig const& moe = *e.model.moe;
  if (e.capacity * static_cast<double>(moe.top_k) < static_cast<double>(moe.experts)) return;
  lines.push_back(
      fmt::format("capacity: {} x top {} is at least the {} experts, so every expert may take every token and none "
                  "is dropped; 0 says the same",
                  e.capacity, moe.top_k, moe.experts));
}

void add_positions(Experiment const& e, Lines& lines) {
  ModelConfig const& m = e.model;
  std::int64_t const tokens = e.context + e.seq;
  if (m.position == PositionKind::learned || m.vision || m.max_positions == 0 || tokens <= m.max_positions) return;
  lines.push_back(fmt::format("seq: {} tokens are beyond the {} positions of {}", tokens, m.max_positions, m.name));
}

}  // namespace

std::vector<std::string> warnings(Experiment const& e) {
  Lines lines;
  for (ModelNote const& note : e.model.notes)
    if (note.beyond_positions == 0 || e.context + e.seq > note.beyond_positions)
      lines.push_back(fmt::format("model: {}", note.text));
  add_positions(e, lines);
  add_capacity(e, lines);
  for (Knob const& knob : knobs) {
    if (!e.given.contains(knob.flag) || knob.works(e)) continue;
    std::string const text = field_text(e, knob.flag);
    if (text == knob.off) continue;
    lines.push_back(fmt::format("{}: {} has no effect at {} (needs {})", knob.flag, text, knob.axis, knob.needs));
  }
  if (e.given.contains("schedule") && e.phase != PhaseKind::train && has_pp(e))
    lines.push_back(fmt::format("schedule: {} has no effect in {}, which has no backward pass",
                                to_string(e.cut.schedule), to_string(e.phase)));
  if (Cut const& c = e.cut; c.zero_stage > 0 && c.shard_ranks == 1 && c.cp == 1 && c.dp > 1 && !e.model.moe)
    lines.push_back(fmt::format("zero: {} has no effect over shard-ranks 1, where each rank holds all", c.zero_stage));
  return lines;
}

std::vector<std::string> contradictions(Experiment const& e) {
  Lines lines;
  auto const detail = [&](std::string_view flag, bool on, std::string_view off, std::string_view legal) {
    if (e.given.contains(flag) && !on)
      lines.push_back(fmt::format("{}: {} given with {}; legal with {}", flag, field_text(e, flag), off, legal));
  };
  detail("mtp-weight", e.mtp > 0, "mtp 0, which has no such loss", "mtp 1 and more");
  detail("tp-overlap-chunks", e.cut.tp_overlap == TpOverlap::chunked, "tp-overlap none", "tp-overlap chunked");
  bool const trains = e.phase == PhaseKind::train;
  std::string const phase = fmt::format("phase {}, which has no gradients", to_string(e.phase));
  detail("bucket-mb", trains, phase, "phase train");
  detail("gradient-dtype", trains || e.gradient_dtype == Dtype::f32, phase, "phase train");
  if (e.given.contains("schedule") && e.cut.schedule == ScheduleKind::one_f_one_b && e.cut.vpp > 1)
    lines.push_back(fmt::format(
        "schedule: 1f1b given with vpp {}, whose chunks take turns; legal: vpp 1, or schedule interleaved", e.cut.vpp));
  return lines;
}

}  // namespace shardbench
