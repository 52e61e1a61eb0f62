#include "harness/planner/what_if.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr std::size_t simulated_again = 4;

/// Simulates a cut and says why it is none.
void try_cut(WhatIf& w, PlanRequest const& request, CostModel const& model, Candidate const& cut, double memory_share) {
  try {
    PlannedPoint const point = look_closer(request, model, cut);
    double const allowed = memory_share * point.memory.capacity_bytes;
    if (point.memory.needed_bytes > allowed)
      w.problem = fmt::format("needs {:.3g} GB of {:.3g} GB", 1e-9 * point.memory.needed_bytes, 1e-9 * allowed);
    else
      w.same_cut_ms = point.step_ms;
  } catch (InputError const& refusal) {
    w.problem = refusal.what();
  }
}

WhatIf with_hardware(std::string change, SystemProfile const& system, PlanRequest const& request,
                     CostModel const& model, PlannedPoint const& best, PlanOptions const& options) {
  WhatIf w;
  w.change = std::move(change);
  try {
    CostModel const changed(system, model.stack());
    try_cut(w, request, changed, best.candidate, options.memory_share);
    PlanOptions again = options;
    again.top = 1, again.simulated = simulated_again, again.watch = {};
    PlanResult result = plan(request, changed, again);
    if (!result.best.empty() && (w.same_cut_ms == 0 || result.best.front().step_ms < w.same_cut_ms))
      w.replanned = std::move(result.best.front());
  } catch (InputError const& refusal) {
    w.problem = refusal.what();
  }
  return w;
}

/// A cut with one knob turned; false when the knob has no such step.
using Turn = bool (*)(Candidate&);

struct Knob {
  std::string_view name;
  Turn turn;
};

bool move_to(std::int32_t& to, std::int32_t& from) {
  if (from % 2 != 0) return false;
  to *= 2, from /= 2;
  return true;
}

constexpr std::array knobs{
    Knob{"twice the tp", [](Candidate& c) { return move_to(c.tp, c.dp); }},
    Knob{"half the tp", [](Candidate& c) { return move_to(c.dp, c.tp); }},
    Knob{"twice the pp", [](Candidate& c) { return move_to(c.pp, c.dp); }},
    Knob{"half the pp", [](Candidate& c) { return move_to(c.dp, c.pp); }},
    Knob{"twice the micro-batch", [](Candidate& c) { return c.micro_batch *= 2, true; }},
    Knob{"half the micro-batch", [](Candidate& c) { return c.micro_batch % 2 == 0 && (c.micro_batch /= 2, true); }},
    Knob{"one more ZeRO stage", [](Candidate& c) { return c.dp > 1 && c.zero_stage < 3 && (++c.zero_stage, true); }},
    Knob{"full recompute", [](Candidate& c) { return std::exchange(c.recompute, Recompute::full) != Recompute::full; }},
    Knob{"plain 1f1b",
         [](Candidate& c) {
           c.vpp = 1;
           return std::exchange(c.schedule, plain_schedule) != plain_schedule;
         }},
};

/// A tp, pp of 1 needs what goes with it switched off.
void tidy(Candidate& c) {
  if (c.tp == 1) c.sequence_parallel = c.tp_overlap = false;
  if (c.pp == 1) c.schedule = plain_schedule, c.vpp = 1;
  if (c.dp == 1) c.zero_stage = 0;
}

}  // namespace

std::string next_system(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> next{{{"a100-80gb-sxm", "h100-sxm"},
                                                                               {"aws-p4d", "aws-p5"},
                                                                               {"aws-p5", "b200"},
                                                                               {"h100-sxm", "b200"},
                                                                               {"h200-sxm", "b200"},
                                                                               {"b200", "gb200-nvl72"}}};
  auto const found = std::ranges::find(next, name, &std::pair<std::string_view, std::string_view>::first);
  return found == next.end() ? std::string() : std::string(found->second);
}

std::vector<WhatIf> hardware_what_ifs(PlanRequest const& request, CostModel const& model, PlannedPoint const& best,
                                      PlanOptions const& options) {
  std::vector<WhatIf> all;
  auto const add = [&](std::string change, SystemProfile const& system) {
    all.push_back(with_hardware(std::move(change), system, request, model, best, options));
  };
  SystemProfile const& now = model.system();
  for (std::size_t level = 0; level < now.network.size(); ++level) {
    SystemProfile changed = now;
    changed.network[level].bandwidth_gb_per_s *= 2;
    add(fmt::format("twice the bandwidth of {}", now.network[level].name), changed);
  }
  SystemProfile faster = now, larger = now, wider = now;
  for (NetworkLevel& level : wider.network) level.bandwidth_gb_per_s *= 2;
  if (now.network.size() > 1) add("twice the bandwidth of all levels", wider);
  faster.device.memory_gb_per_s *= 2, larger.device.memory_gb *= 2;
  add("twice the memory bandwidth", faster);
  add("twice the memory", larger);
  std::string const next = next_system(now.name);
  if (!next.empty()) add("on " + next, load_system(next));
  return all;
}

std::vector<WhatIf> cut_what_ifs(PlanRequest const& request, CostModel const& model, PlannedPoint const& best,
                                 PlanOptions const& options) {
  std::vector<WhatIf> all;
  for (Knob const& knob : knobs) {
    Candidate cut = best.candidate;
    if (!knob.turn(cut)) continue;
    tidy(cut);
    WhatIf w;
    w.change = knob.name;
    try_cut(w, request, model, cut, options.memory_share);
    all.push_back(std::move(w));
  }
  return all;
}

}  // namespace shardbench
