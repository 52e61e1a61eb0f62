#include "harness/planner/serve_plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr std::int64_t most_sequences = 1024;  // of a replica

bool same_cut(ServeCut const& a, ServeCut const& b) {
  return a.tp == b.tp && a.pp == b.pp && a.ep == b.ep && a.replicas == b.replicas;
}

/// What the screening foretells of a cut.
struct ServeCost {
  double ttft_ms = 0, tpot_ms = 0, memory_bytes = 0;
};

struct ScreenedCut {
  ServeCut cut;
  ServeCost cost;
};

bool layers_are_alike(ModelConfig const& m) {
  if (m.sliding_window > 0 && m.sliding_window_step > 1) return false;
  for (std::int64_t layer = 1; layer < m.layers; ++layer)
    if (m.is_moe_layer(layer) != m.is_moe_layer(0)) return false;
  return true;
}

Experiment cut_experiment(ServeRequest const& r, ServeCut const& c, PhaseKind phase, std::int64_t layers) {
  Experiment e = r.base;
  e.model.layers = layers, e.layers = 0;
  e.parallel = {};
  e.parallel.tp = c.tp, e.parallel.pp = c.pp, e.parallel.ep = c.ep, e.parallel.dp = c.replicas;
  e.phase = phase;
  bool const decode = phase == PhaseKind::decode;
  e.context = decode ? r.base.context : 0;
  e.micro_batch = decode ? c.batch / c.microbatches : 1;
  e.global_batch = decode ? c.batch * c.replicas : c.replicas;
  e.ranks = r.devices;
  resolve(e);
  // The model is the whole one again for the commands that reproduce it.
  e.layers = r.base.layers;
  return e;
}

double memory_of(MemoryFit const& prefill, MemoryFit const& decode) {
  return decode.needed_bytes + prefill.activation_bytes;
}

ServedPoint simulate_cut(ServeRequest const& r, CostModel const& model, ServeCut const& c, std::int64_t layers,
                         bool breakdown) {
  ServedPoint p;
  p.cut = c;
  auto const step = [&](PhaseKind phase, Experiment& e, Prediction& prediction, MemoryFit& memory) {
    e = cut_experiment(r, c, phase, layers);
    prediction = predict_step(e, model, {.record_spans = false, .break_down = breakdown});
    memory = memory_fit(prediction.programs, model.system(), model.stack());
    prediction.programs = std::vector<StepProgram>();
  };
  step(PhaseKind::prefill, p.prefill, p.prefill_step, p.prefill_memory);
  step(PhaseKind::decode, p.decode, p.decode_step, p.decode_memory);
  p.ttft_ms = p.prefill_step.step_ms, p.tpot_ms = p.decode_step.step_ms;
  p.memory_bytes = memory_of(p.prefill_memory, p.decode_memory);
  return p;
}

ServeCost cost_of(ServedPoint const& p) { return {p.ttft_ms, p.tpot_ms, p.memory_bytes}; }

/// From models of one and two layers a stage, where layers are alike.
ServeCost screen(ServeRequest const& r, CostModel const& model, ServeCut const& c, bool alike) {
  std::int64_t const layers = r.base.model.layers, deep = (layers + c.pp - 1) / c.pp;
  if (!alike || deep <= 2) return cost_of(simulate_cut(r, model, c, layers, false));
  ServeCost const one = cost_of(simulate_cut(r, model, c, c.pp, false));
  ServeCost const two = cost_of(simulate_cut(r, model, c, 2 * c.pp, false));
  auto const times = static_cast<double>(deep - 1);
  return {one.ttft_ms + times * (two.ttft_ms - one.ttft_ms), one.tpot_ms + times * (two.tpot_ms - one.tpot_ms),
          one.memory_bytes + times * (two.memory_bytes - one.memory_bytes)};
}

/// Less is better.
std::array<double, 3> rank_of(ServeCut const& c, ServeCost const& cost, Objective objective) {
  double const per_device = cost.tpot_ms * static_cast<double>(c.tp * c.pp) / static_cast<double>(c.batch);
  switch (objective) {
    case Objective::tokens_per_gpu_hour:
    case Objective::cost:
      return {per_device, cost.tpot_ms, cost.ttft_ms};
    case Objective::memory:
      return {cost.memory_bytes, cost.tpot_ms, cost.ttft_ms};
    default:
      return {cost.tpot_ms, cost.ttft_ms, cost.memory_bytes};
  }
}

bool is_slow(ServeRequest const& r, ServeCost const& cost) {
  return (r.ttft_limit_ms > 0 && cost.ttft_ms > r.ttft_limit_ms) ||
         (r.tpot_limit_ms > 0 && cost.tpot_ms > r.tpot_limit_ms);
}

void check_demands(PlanDemands const& demands) {
  constexpr std::array<std::string_view, 4> axes{"tp", "pp", "ep", "dp"};
  for (auto const& [flag, list] : {std::pair{"fix", &demands.fix}, {"exclude", &demands.exclude}})
    for (std::string const& demand : *list)
      if (std::ranges::find(axes, demand.substr(0, demand.find('='))) == axes.end())
        throw InputError(fmt::format(
            "--{}: {}: serving cuts by tp, pp, ep and dp (replicas) only; allowed: one of them", flag, demand));
}

/// Tries cuts and batches.
class ServeSearch {
 public:
  ServeSearch(ServeRequest const& request, CostModel const& model, double allowed, Objective objective)
      : r_(request),
        model_(model),
        allowed_(allowed),
        objective_(objective),
        alike_(layers_are_alike(request.base.model)) {}

  void run() {
    Experiment base = r_.base;
    base.global_batch = base.global_batch > 0 ? base.global_batch : r_.devices;
    PlanAxes const axes = request_for(base, r_.devices, r_.demands).axes;
    for (std::int32_t const tp : axes.tp)
      for (std::int32_t const pp : axes.pp)
        for (std::int32_t const ep : axes.ep) {
          std::int64_t const inner = static_cast<std::int64_t>(tp) * pp;
          if (pp > r_.base.model.layers || r_.devices % inner != 0 ||
              r_.devices % (static_cast<std::int64_t>(ep) * pp) != 0)
            continue;
          std::int64_t const replicas = r_.devices / inner;
          bool const wanted = axes.dp.empty() || std::ranges::find(axes.dp, replicas) != axes.dp.end();
          if (wanted) try_batches({.tp = tp, .pp = pp, .ep = ep, .replicas = replicas});
        }
  }

  ServeResult result;
  std::vector<ScreenedCut> kept;

 private:
  void try_batches(ServeCut c) {
    if (r_.sequences > 0) {
      if (r_.sequences % c.replicas != 0) return;
      c.batch = r_.sequences / c.replicas;
      static_cast<void>(try_batch(c));
      return;
    }
    // More sequences never make a token come sooner.
    std::int64_t const most = objective_ == Objective::latency || objective_ == Objective::gpus ? 1 : most_sequences;
    for (c.batch = 1; c.batch <= most; c.batch *= 2)
      if (!try_batch(c)) return;
  }

  /// Whether a larger batch may be good too.
  bool try_batch(ServeCut c) {
    bool any = false;
    for (std::int64_t const microbatches : {std::int64_t{1}, c.pp}) {
      if (microbatches > 1 && c.batch % microbatches != 0) {
        any = true;
        continue;
      }
      if (microbatches == 1 || c.pp > 1) {
        c.microbatches = microbatches;
        any |= take(c);
      }
      if (c.pp == 1) break;
    }
    return any;
  }

  bool take(ServeCut const& c) {
    ++result.legal;
    ServeCost cost;
    try {
      cost = screen(r_, model_, c, alike_);
    } catch (IllegalConfig const& refusal) {
      ++result.no_program;
      if (result.problem.empty()) result.problem = refusal.what();
      return false;
    }
    if (result.least_memory_bytes == 0 || cost.memory_bytes < result.least_memory_bytes)
      result.least_memory_bytes = cost.memory_bytes, result.smallest = c;
    if (cost.memory_bytes > allowed_) return ++result.too_big, false;
    auto const lower = [](double& least, double value) { least = least == 0 ? value : std::min(least, value); };
    lower(result.least_ttft_ms, cost.ttft_ms), lower(result.least_tpot_ms, cost.tpot_ms);
    if (is_slow(r_, cost)) return ++result.too_slow, false;
    kept.push_back({c, cost});
    return true;
  }

  ServeRequest const& r_;
  CostModel const& model_;
  double allowed_;
  Objective objective_;
  bool alike_;
};

}  // namespace

double ServedPoint::tokens_per_s_per_device() const {
  return 1e3 * static_cast<double>(cut.batch) / (tpot_ms * static_cast<double>(cut.tp * cut.pp));
}

ServedPoint look_closer(ServeRequest const& request, CostModel const& model, ServeCut const& cut) {
  return simulate_cut(request, model, cut, request.base.model.layers, true);
}

ServeResult plan_serving(ServeRequest const& request, CostModel const& model, PlanOptions const& options,
                         Objective objective) {
  check_demands(request.demands);
  double const allowed = allowed_bytes(model, options.memory_share);
  ServeSearch search(request, model, allowed, objective);
  search.run();
  ServeResult result = std::move(search.result);
  if (result.legal == 0)
    throw InputError(fmt::format(
        "{}: no legal cut of {} devices{}; allowed: other demands, or numbers with more divisors",
        request.demands.empty() ? "--gpus" : fmt::format("{}", fmt::join(texts_of(request.demands), " and ")),
        request.devices,
        request.sequences > 0 ? fmt::format(" and {} sequences (--global-batch)", request.sequences) : ""));
  if (result.legal == result.no_program) throw InputError("plan: no cut has a program: " + result.problem);
  std::ranges::stable_sort(search.kept, {}, [&](ScreenedCut const& s) { return rank_of(s.cut, s.cost, objective); });
  for (ScreenedCut const& s : search.kept) {
    if (result.best.size() >= std::max(options.top, options.simulated)) break;
    // Another batch of the same cut is no other answer.
    if (std::ranges::any_of(result.best, [&](ServedPoint const& p) { return same_cut(p.cut, s.cut); })) continue;
    ServedPoint point = look_closer(request, model, s.cut);
    if (point.memory_bytes <= allowed && !is_slow(request, cost_of(point))) result.best.push_back(std::move(point));
  }
  std::ranges::stable_sort(result.best, {},
                           [&](ServedPoint const& p) { return rank_of(p.cut, cost_of(p), objective); });
  if (result.best.size() > options.top) result.best.resize(options.top);
  return result;
}

}  // namespace shardbench
