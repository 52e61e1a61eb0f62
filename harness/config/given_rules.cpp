// Rules about what was asked for, beside what is legal: flags that contradict each other, and flags that change
// nothing.
#include <fmt/format.h>

#include "harness/config/experiment.hpp"
#include "harness/config/knob.hpp"
#include "harness/config/reasons.hpp"

namespace shardbench {
namespace {

void add_capacity(Experiment const& e, Reasons& lines) {
  if (!e.model.moe || e.capacity == 0) return;
  MoeConfig const& moe = *e.model.moe;
  if (e.capacity * static_cast<double>(moe.top_k) < static_cast<double>(moe.experts)) return;
  add(lines,
      "capacity: {} x top {} is at least the {} experts, so every expert may take every token and none is dropped; 0 "
      "says the same",
      e.capacity, moe.top_k, moe.experts);
}

/// Tokens that attention may see at the end of the step.
std::int64_t positions_of(Experiment const& e) { return e.phase == PhaseKind::decode ? e.context + 1 : e.seq; }

void add_positions(Experiment const& e, Reasons& lines) {
  ModelConfig const& m = e.model;
  std::int64_t const tokens = positions_of(e);
  if (m.position == PositionKind::learned || m.vision || m.max_positions == 0 || tokens <= m.max_positions) return;
  add(lines, "seq: {} tokens are beyond the {} positions of {}", tokens, m.max_positions, m.name);
}

}  // namespace

std::vector<std::string> warnings(Experiment const& e) {
  Reasons lines;
  for (ModelNote const& note : e.model.notes)
    if (note.beyond_positions == 0 || positions_of(e) > note.beyond_positions) add(lines, "model: {}", note.text);
  add_positions(e, lines);
  if (!e.weights.empty() && e.model.moe && e.routing == RoutingKind::prescribed)
    lines.push_back(
        "weights: experts are chosen by prescribed loads, not by the router that was given; --routing learned "
        "lets it");
  add_capacity(e, lines);
  Experiment const defaults;
  for (Knob const& knob : knobs()) {
    if (!knob.need || !e.given.contains(knob.flag) || knob.need->met(e)) continue;
    std::string const text = knob.get(e);
    if (!knob.default_asks && text == knob.get(defaults)) continue;
    add(lines, "{}: {} has no effect at {} (needs {})", knob.flag, text, knob.need->missing, knob.need->needs);
  }
  if (e.given.contains("schedule") && e.phase != PhaseKind::train && e.cut.pp > 1)
    add(lines, "schedule: {} has no effect in {}, which has no backward pass", to_string(e.cut.schedule),
        to_string(e.phase));
  if (Cut const& c = e.cut; c.zero_stage > 0 && c.shard_ranks == 1 && c.cp == 1 && c.dp > 1 && !e.model.moe)
    add(lines, "zero: {} has no effect over shard-ranks 1, where each rank holds all", c.zero_stage);
  return lines;
}

std::vector<std::string> contradictions(Experiment const& e) {
  Reasons lines;
  for (Knob const& knob : knobs())
    if (knob.contradiction && e.given.contains(knob.flag))
      if (std::string const problem = knob.contradiction(e); !problem.empty())
        add(lines, "{}: {} given with {}", knob.flag, knob.get(e), problem);
  if (e.given.contains("schedule") && e.cut.schedule == ScheduleKind::one_f_one_b && e.cut.vpp > 1)
    add(lines, "schedule: 1f1b given with vpp {}, whose chunks take turns; legal: vpp 1, or schedule interleaved",
        e.cut.vpp);
  return lines;
}

}  // namespace shardbench
