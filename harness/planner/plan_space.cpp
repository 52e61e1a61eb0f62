#include "harness/planner/plan_space.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/config/field_text.hpp"
#include "harness/config/stage_layout.hpp"
#include "harness/schedule/schedule_rules.hpp"
#include "kernels/core/error.hpp"
#include "kernels/core/index.hpp"

namespace shardbench {
namespace {

constexpr std::int64_t context_parallel_from = 8192;  // tokens; below it activations of a sequence fit anywhere
constexpr std::int32_t most_chunks = 16;

std::vector<std::int32_t> divisors(std::int64_t of) {
  std::vector<std::int32_t> values;
  for (std::int64_t d = 1; d * d <= of; ++d) {
    if (of % d != 0) continue;
    values.push_back(static_cast<std::int32_t>(d));
    if (d * d != of) values.push_back(static_cast<std::int32_t>(of / d));
  }
  std::ranges::sort(values);
  return values;
}

/// Whether the layers suit the pieces: one each at least, embedding and head beside them where the ends are left none.
bool pieces_fit(Candidate const& c, Experiment const& base) {
  Cut const& given = base.cut;
  std::int64_t const pieces = c.pp * rules_of(c.schedule).pieces_a_stage(c.vpp), layers = base.model.layers;
  if (!base.pipeline_layout.empty()) return pieces == std::ssize(parse_pipeline_layout(base.pipeline_layout));
  if (given.first_stage_layers > 0 || given.last_stage_layers > 0) try {
      return c.pp > 1 && !piece_layers(base.model, cut_of(base, c)).empty();
    } catch (IllegalConfig const&) {
      return false;
    }
  std::int64_t const slots = (given.embedding_slot ? 1 : 0) + (given.head_slot ? 1 : 0);
  return pieces <= layers + slots || (slots == 0 && takes_end_slots(base.model, pieces));
}

/// Whether illegal_reasons and microbatches_problem would have nothing to say of the schedule.
bool schedule_fits(Candidate const& c, Experiment const& base, std::int64_t microbatches) {
  if (microbatches > most_microbatches || !pieces_fit(c, base)) return false;
  if (c.pp == 1) return c.schedule == plain_schedule && c.vpp == 1;
  ScheduleRules const& rules = rules_of(c.schedule);
  if (rules.takes_vpp() != (c.vpp > 1)) return false;
  // Rounds longer than the pipeline hold more activations and are no faster.
  if (rules.takes_vpp() && microbatches % c.pp != 0) return false;
  if (rules.even_stages && c.pp % 2 != 0) return false;
  return rules.microbatches.fit(c.pp, microbatches);
}

/// Walks the axes that decide the costs of a layer, then those that only arrange layers.
class Walk {
 public:
  Walk(PlanRequest const& request, std::function<void(Candidate const&)> const& visit)
      : r_(request), a_(request.axes), visit_(visit) {}

  SpaceCount run() {
    for (std::int32_t const tp : a_.tp)
      for (std::int32_t const cp : a_.cp)
        for (std::int32_t const ep : a_.ep)
          for (std::int32_t const etp : a_.etp)
            for (std::int32_t const micro_batch : a_.micro_batch)
              if ((!a_.etp_follows_tp || etp == 1 || etp == tp) && layer_fits({tp, cp, ep, etp, 1, 1, 1, micro_batch}))
                choose_switches({tp, cp, ep, etp, 1, 1, 1, micro_batch});
    return count_;
  }

 private:
  /// Whether a point is legal so far, counted where it is not.
  bool counted(bool legal) {
    if (!legal) ++count_.illegal;
    return legal;
  }

  bool layer_fits(Candidate const& c) {
    return counted(r_.devices % (static_cast<std::int64_t>(c.tp) * c.cp) == 0 &&
                   r_.base.seq % (c.cp == 1 ? 1 : 2L * c.cp) == 0 && r_.base.global_batch % c.micro_batch == 0);
  }

  void choose_switches(Candidate c) {
    for (bool const sequence : a_.sequence_parallel) {
      // Without a tensor-parallel group there is nothing to cut or to overlap: one value stands for both.
      if (!counted(!sequence || (c.tp > 1 && r_.base.seq / c.cp % c.tp == 0))) continue;
      for (bool const overlap : a_.tp_overlap)
        for (Recompute const recompute : a_.recompute) {
          if (!counted(!overlap || c.tp > 1)) continue;
          c.sequence_parallel = sequence, c.tp_overlap = overlap, c.recompute = recompute;
          arrange(c);
        }
    }
  }

  void arrange(Candidate c) {
    std::int64_t const inner = static_cast<std::int64_t>(c.tp) * c.cp;
    for (ScheduleKind const schedule : a_.schedule)
      for (std::int32_t const pp : a_.pp) {
        std::int64_t const dp = r_.devices / (inner * pp);
        bool const divides = dp * inner * pp == r_.devices && pp <= r_.base.model.layers && dp_allowed(dp) &&
                             r_.base.global_batch % (dp * c.micro_batch) == 0 &&
                             r_.devices % (static_cast<std::int64_t>(c.ep) * c.etp * pp) == 0;
        if (!counted(divides)) continue;
        c.pp = pp, c.dp = static_cast<std::int32_t>(dp), c.schedule = schedule;
        finish(c, r_.base.global_batch / (dp * c.micro_batch));
      }
  }

  void finish(Candidate c, std::int64_t microbatches) {
    for (std::int32_t const vpp : a_.vpp) {
      c.vpp = vpp;
      if (!counted(schedule_fits(c, r_.base, microbatches))) continue;
      for (std::int8_t const zero : a_.zero_stage) {
        if (!counted(zero == 0 || c.dp > 1)) continue;
        c.zero_stage = zero;
        ++count_.legal;
        visit_(c);
      }
    }
  }

  bool dp_allowed(std::int64_t dp) const {
    return dp >= 1 && (a_.dp.empty() || std::ranges::find(a_.dp, dp) != a_.dp.end());
  }

  PlanRequest const& r_;
  PlanAxes const& a_;
  std::function<void(Candidate const&)> const& visit_;
  SpaceCount count_;
};

/// Calls `with(values, value_of)` for the axis of that name; false when there is none. `value_of` takes the value from
/// an experiment whose field of the same name was set.
template <typename With>
bool with_axis(PlanAxes& a, std::string_view name, With&& with) {
  auto const degree = [&](std::string_view axis, std::vector<std::int32_t>& values, auto member) {
    if (axis != name) return false;
    with(values, [member](Experiment const& e) { return static_cast<std::int32_t>(e.cut.*member); });
    return true;
  };
  if (degree("tp", a.tp, &Cut::tp) || degree("cp", a.cp, &Cut::cp) || degree("ep", a.ep, &Cut::ep) ||
      degree("etp", a.etp, &Cut::etp) || degree("pp", a.pp, &Cut::pp) || degree("vpp", a.vpp, &Cut::vpp) ||
      degree("dp", a.dp, &Cut::dp))
    return true;
  if (name == "micro-batch")
    with(a.micro_batch, [](Experiment const& e) { return static_cast<std::int32_t>(e.micro_batch); });
  else if (name == "zero")
    with(a.zero_stage, [](Experiment const& e) { return static_cast<std::int8_t>(e.cut.zero_stage); });
  else if (name == "sequence-parallel")
    with(a.sequence_parallel, [](Experiment const& e) { return e.cut.sequence_parallel; });
  else if (name == "tp-overlap")
    with(a.tp_overlap, [](Experiment const& e) { return e.cut.tp_overlap == TpOverlap::chunked; });
  else if (name == "recompute")
    with(a.recompute, [](Experiment const& e) { return e.cut.recompute; });
  else if (name == "schedule")
    with(a.schedule, [](Experiment const& e) { return e.cut.schedule; });
  else
    return false;
  return true;
}

/// Applies a "name=value|value" demand, values as the flags of `run` take them; `apply(values, listed)` changes the
/// axis.
template <typename Apply>
void demand_of(PlanAxes& axes, std::string_view flag, std::string_view demand, Apply&& apply) {
  std::size_t const equals = demand.find('=');
  std::string_view const name = demand.substr(0, equals);
  auto const read = [&]<typename Value, typename Get>(std::vector<Value>& values, Get const& value_of) {
    std::vector<Value> listed;
    for (std::string const& part : split_at(demand.substr(equals + 1), '|')) {
      Experiment named;
      try {
        set_field(named, name, part);
      } catch (InputError const& refusal) {  // it blames the flag of the same name: the demand is to blame
        std::string const words = refusal.what(), blamed = fmt::format("--{}: ", name);
        throw InputError(fmt::format("--{} {}: {}", flag, printable(demand),
                                     words.starts_with(blamed) ? words.substr(blamed.size()) : words));
      }
      listed.push_back(value_of(named));
    }
    apply(values, listed);
  };
  if (equals == std::string_view::npos || !with_axis(axes, name, read))
    throw InputError(
        fmt::format("--{}: {}: allowed: AXIS=VALUE or AXIS=VALUE|VALUE with AXIS one of tp, cp, ep, etp, "
                    "pp, vpp, dp, micro-batch, zero, sequence-parallel, tp-overlap, recompute, schedule",
                    flag, in_quotes(demand)));
}

}  // namespace

LayerKey layer_key(Candidate const& c) {
  return {c.tp, c.cp, c.ep, c.etp, c.micro_batch, c.sequence_parallel, c.tp_overlap, c.recompute};
}

namespace {

/// A detector is cut over data alone and has no attention core to repeat; without a tensor-parallel or a pipeline
/// degree there is nothing for the knobs of such a cut to do.
void leave_out_what_has_no_meaning(PlanAxes& a, ModelConfig const& m) {
  if (m.yolo) {
    a.pp = {1};
    a.zero_stage = {0, 1, 2};
    a.recompute = {Recompute::none, Recompute::full};
  }
  if (a.tp == std::vector<std::int32_t>{1}) a.sequence_parallel = a.tp_overlap = {false};
  if (a.pp == std::vector<std::int32_t>{1}) a.vpp = {1}, a.schedule = {plain_schedule};
}

}  // namespace

PlanAxes axes_up_to(Experiment const& base, std::int64_t most_devices) {
  PlanAxes a;
  ModelConfig const& m = base.model;
  for (std::int64_t const tp : legal_tp(m, most_devices)) a.tp.push_back(static_cast<std::int32_t>(tp));
  a.cp = {1};
  for (std::int32_t cp = 2; base.seq / cp >= context_parallel_from / 2 && cp <= most_devices; cp *= 2)
    a.cp.push_back(cp);
  a.ep = m.moe ? divisors(m.moe->experts) : std::vector<std::int32_t>{1};
  std::erase_if(a.ep, [&](std::int32_t ep) { return ep > most_devices; });
  a.etp = {1};
  if (m.moe)
    for (std::int32_t const tp : a.tp)
      if (tp > 1 && m.moe->ffn_hidden % tp == 0) a.etp.push_back(tp);
  for (std::int32_t pp = 1; pp <= m.layers && pp <= most_devices; ++pp) a.pp.push_back(pp);
  for (std::int32_t v = 1; v <= most_chunks && v <= m.layers; ++v) a.vpp.push_back(v);
  a.micro_batch = divisors(base.global_batch);
  a.zero_stage = {0, 1, 2, 3};
  a.sequence_parallel = {false, true};
  a.tp_overlap = {false, true};
  a.recompute = {Recompute::none, Recompute::selective, Recompute::full};
  // Parts that were named are what selective recomputation repeats.
  if (!base.cut.recompute_modules.empty()) std::erase(a.recompute, Recompute::selective);
  for (ScheduleKind const kind : enum_values<ScheduleKind>())
    if (rules_of(kind).planned) a.schedule.push_back(kind);
  leave_out_what_has_no_meaning(a, m);
  return a;
}

PlanAxes default_axes(Experiment const& base, std::int64_t devices) {
  PlanAxes a = axes_up_to(base, devices);
  for (std::vector<std::int32_t>* const degrees : {&a.tp, &a.cp, &a.ep, &a.etp, &a.pp})
    std::erase_if(*degrees, [&](std::int32_t degree) { return devices % degree != 0; });
  leave_out_what_has_no_meaning(a, base.model);
  return a;
}

void fix_axis(PlanAxes& axes, std::string_view demand) {
  demand_of(axes, "fix", demand, [](auto& values, auto const& listed) { values = listed; });
  if (demand.starts_with("etp=")) axes.etp_follows_tp = false;
}

void exclude_from_axis(PlanAxes& axes, std::string_view demand) {
  demand_of(axes, "exclude", demand, [&](auto& values, auto const& listed) {
    std::erase_if(values, [&](auto const& value) { return std::ranges::find(listed, value) != listed.end(); });
    if (values.empty()) throw InputError(fmt::format("--exclude: {}: leaves no value of that axis", demand));
  });
}

std::string axes_text(PlanAxes const& axes) {
  std::string text;
  auto const line = [&](std::string_view name, auto const& values, auto&& write) {
    std::vector<std::string> words;
    for (auto const& value : values) words.push_back(write(value));
    text += fmt::format("  {:<18}{}\n", name,
                        words.empty() ? "what the others leave" : fmt::format("{}", fmt::join(words, ", ")));
  };
  auto const number = [](auto value) { return fmt::format("{}", value); };
  auto const kind = [](auto value) { return std::string(to_string(value)); };
  line("tp", axes.tp, number), line("cp", axes.cp, number), line("pp", axes.pp, number), line("dp", axes.dp, number);
  line("ep", axes.ep, number),
      line(axes.etp_follows_tp && axes.etp.size() > 1 ? "etp (1 or tp)" : "etp", axes.etp, number),
      line("vpp", axes.vpp, number);
  line("zero", axes.zero_stage, [](std::int8_t value) { return fmt::format("{}", static_cast<int>(value)); });
  line("micro-batch", axes.micro_batch, number);
  line("sequence-parallel", axes.sequence_parallel, [](bool on) { return std::string(on ? "true" : "false"); });
  line("tp-overlap", axes.tp_overlap, [](bool on) { return std::string(on ? "chunked" : "none"); });
  line("recompute", axes.recompute, kind), line("schedule", axes.schedule, kind);
  return text;
}

bool takes_end_slots(ModelConfig const& model, std::int64_t pieces) { return pieces == model.layers + 2; }

Cut cut_of(Experiment const& base, Candidate const& c) {
  Cut p = base.cut;
  p.tp = c.tp, p.cp = c.cp, p.ep = c.ep, p.etp = c.etp, p.pp = c.pp, p.dp = c.dp, p.vpp = c.vpp;
  p.zero_stage = c.zero_stage, p.sequence_parallel = c.sequence_parallel, p.recompute = c.recompute;
  p.tp_overlap = c.tp_overlap ? TpOverlap::chunked : TpOverlap::none;
  p.schedule = c.schedule;
  if (c.recompute == Recompute::full && p.recompute_layers == 0) p.recompute_modules = {};
  if (base.pipeline_layout.empty() && takes_end_slots(base.model, model_chunks(p)))
    p.embedding_slot = p.head_slot = true;
  return p;
}

Experiment experiment_of(PlanRequest const& request, Candidate const& c) {
  Experiment e = request.base;
  e.cut = cut_of(request.base, c);
  e.micro_batch = c.micro_batch;
  e.ranks = request.devices;
  resolve(e);
  return e;
}

SpaceCount for_each_candidate(PlanRequest const& request, std::function<void(Candidate const&)> const& visit) {
  return Walk(request, visit).run();
}

}  // namespace shardbench
