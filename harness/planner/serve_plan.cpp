#include "harness/planner/serve_plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <set>

#include "harness/planner/worker_threads.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr std::int64_t most_sequences = 1024;  // of a replica

bool same_cut(ServeCut const& a, ServeCut const& b) {
  return a.tp == b.tp && a.pp == b.pp && a.ep == b.ep && a.replicas == b.replicas;
}

/// A cut and what the screening foretells of it.
struct ScreenedCut {
  ServeCut cut;
  ServeCost cost;
};

/// Layers after which a model repeats itself, apart from dense layers before the first with experts; 0: it never does.
std::int64_t period_of(ModelConfig const& m) {
  bool const windows = m.sliding_window > 0;
  if (!m.unrotated_layers.empty() || (windows && !m.full_attention_layers.empty())) return 0;
  std::int64_t const window = std::lcm(windows ? std::max<std::int64_t>(m.full_attention_step, 1) : 1,
                                       std::max<std::int64_t>(m.unrotated_step, 1));
  if (!m.moe) return window;
  if (!m.moe->dense_layers.empty() || (m.moe->first_dense_layers > 0 && (m.moe->layer_step > 1 || window > 1)))
    return 0;
  return std::lcm(window, m.moe->layer_step);
}

/// Which layers a screened model keeps: all of the model's, the repeated ones, the dense ones alone.
enum class Kept : std::uint8_t { all, repeated, dense };

Experiment cut_experiment(ServeRequest const& r, ServeCut const& c, PhaseKind phase, std::int64_t layers, Kept kept) {
  Experiment e = r.base;
  e.model.layers = layers, e.layers = 0;
  e.cut = {};
  e.cut.tp = c.tp, e.cut.pp = c.pp, e.cut.ep = c.ep, e.cut.dp = c.replicas;
  if (e.model.moe && kept == Kept::repeated) e.model.moe->first_dense_layers = 0;
  if (kept == Kept::dense) e.model.moe.reset(), e.cut.ep = 1;
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

}  // namespace

ServedPoint look_closer(ServeRequest const& r, CostModel const& model, ServeCut const& c) {
  ServedPoint p;
  p.cut = c;
  auto const step = [&](PhaseKind phase, Experiment& e, Prediction& prediction, MemoryFit& memory) {
    e = cut_experiment(r, c, phase, r.base.model.layers, Kept::all);
    prediction = predict_step(e, model, {.record_spans = false, .break_down = true});
    memory = memory_fit(prediction.stages, model.system(), model.stack());
    prediction.stages.clear();
  };
  step(PhaseKind::prefill, p.prefill, p.prefill_step, p.prefill_memory);
  step(PhaseKind::decode, p.decode, p.decode_step, p.decode_memory);
  p.ttft_ms = p.prefill_step.step_ms, p.tpot_ms = p.decode_step.step_ms;
  p.memory_bytes = p.decode_memory.needed_bytes + p.prefill_memory.activation_bytes;
  return p;
}

namespace {

/// A step of one phase: its time, what it needs, and its activations among that.
using PhaseCost = std::array<double, 3>;

PhaseCost step_of(ServeRequest const& r, CostModel const& model, ServeCut const& c, PhaseKind phase,
                  std::int64_t layers, Kept kept) {
  Prediction const p = predict_step(cut_experiment(r, c, phase, layers, kept), model, {.record_spans = false});
  MemoryFit const fit = memory_fit(p.stages, model.system(), model.stack());
  return {p.step_ms, fit.needed_bytes, fit.activation_bytes};
}

/// From models of one and two periods of layers a stage, where layers repeat. With a pipeline every stage is taken to
/// be one of repeated layers.
PhaseCost screen(ServeRequest const& r, CostModel const& model, ServeCut const& c, PhaseKind phase) {
  ModelConfig const& m = r.base.model;
  std::int64_t const period = period_of(m), dense = m.moe && c.pp == 1 ? m.moe->first_dense_layers : 0;
  std::int64_t const deep = (m.layers + c.pp - 1) / c.pp - dense;
  if (period == 0 || deep <= 2 * period) return step_of(r, model, c, phase, m.layers, Kept::all);
  auto const add = [](PhaseCost& sum, double times, PhaseCost const& more, PhaseCost const& less) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += times * (more[i] - less[i]);
  };
  PhaseCost sum = step_of(r, model, c, phase, period * c.pp, Kept::repeated), one = sum;
  add(sum, static_cast<double>(deep - period) / static_cast<double>(period),
      step_of(r, model, c, phase, 2 * period * c.pp, Kept::repeated), one);
  if (dense > 0)
    add(sum, static_cast<double>(dense), step_of(r, model, c, phase, 2, Kept::dense),
        step_of(r, model, c, phase, 1, Kept::dense));
  return sum;
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
  for (auto const& [flag, list] : demand_flags)
    for (std::string const& demand : demands.*list)
      if (std::ranges::find(axes, demand.substr(0, demand.find('='))) == axes.end())
        throw InputError(fmt::format(
            "--{}: {}: serving cuts by tp, pp, ep and dp (replicas) only; allowed: one of them", flag, demand));
}

/// How many times its limit the worst of a cost is.
double miss_of(ServeRequest const& r, ServeCost const& cost) {
  return std::max(r.ttft_limit_ms > 0 ? cost.ttft_ms / r.ttft_limit_ms : 0,
                  r.tpot_limit_ms > 0 ? cost.tpot_ms / r.tpot_limit_ms : 0);
}

/// Keeps the least of what is above 0, where 0 is nothing; whether the value is it.
bool lower(double& least, double value) {
  bool const lowers = value > 0 && (least == 0 || value < least);
  if (lowers) least = value;
  return lowers;
}

void count_as_slow(ServeResult& result, ServeRequest const& r, ServeCut const& c, ServeCost const& cost) {
  ++result.too_slow;
  if (lower(result.nearest_miss, miss_of(r, cost))) result.nearest = c;
}

/// Tries the batches of one cut.
class CutSearch {
 public:
  CutSearch(ServeRequest const& request, CostModel const& model, double allowed, Objective objective)
      : r_(request), model_(model), allowed_(allowed), objective_(objective) {}

  void run(ServeCut c) {
    if (r_.sequences > 0) {
      if (r_.sequences % c.replicas != 0) return;
      c.batch = r_.sequences / c.replicas;
      static_cast<void>(try_batch(c));
      return;
    }
    // More sequences never make a token come sooner: the fewest that a cut can decode are enough.
    bool const fewest = objective_ == Objective::latency || objective_ == Objective::gpus;
    for (c.batch = 1; c.batch <= most_sequences; c.batch *= 2)
      if (!try_batch(c) || (fewest && result.legal > result.no_program)) return;
  }

  ServeResult result;
  std::vector<ScreenedCut> kept;

 private:
  /// Whether a larger batch may be good too.
  bool try_batch(ServeCut c) {
    bool any = false;
    for (std::int64_t const microbatches : {std::int64_t{1}, c.pp}) {
      c.microbatches = microbatches;
      any |= c.batch % microbatches != 0 || take(c);
      if (c.pp == 1) break;
    }
    return any;
  }

  bool take(ServeCut const& c) {
    ++result.legal;
    ServeCost cost;
    try {
      // A prompt comes alone, whatever the batch of those that follow.
      if (!prompt_) prompt_ = screen(r_, model_, c, PhaseKind::prefill);
      PhaseCost const token = screen(r_, model_, c, PhaseKind::decode);
      cost = {prompt_->at(0), token[0], token[1] + prompt_->at(2)};
    } catch (IllegalConfig const& refusal) {
      ++result.no_program;
      if (result.problem.empty()) result.problem = refusal.what();
      return true;  // such as too few sequences for the ranks that share them
    }
    if (lower(result.least_memory_bytes, cost.memory_bytes)) result.smallest = c;
    if (cost.memory_bytes > allowed_) return ++result.too_big, false;
    lower(result.least_ttft_ms, cost.ttft_ms), lower(result.least_tpot_ms, cost.tpot_ms);
    if (is_slow(r_, cost)) return count_as_slow(result, r_, c, cost), false;
    kept.push_back({c, cost});
    return true;
  }

  ServeRequest const& r_;
  CostModel const& model_;
  double allowed_;
  Objective objective_;
  std::optional<PhaseCost> prompt_;
};

std::vector<ServeCut> cuts_of(ServeRequest const& r) {
  Experiment base = r.base;
  base.global_batch = base.global_batch > 0 ? base.global_batch : r.devices;
  PlanAxes const axes = request_for(base, r.devices, r.demands).axes;
  std::vector<ServeCut> cuts;
  for (std::int32_t const tp : axes.tp)
    for (std::int32_t const pp : axes.pp)
      for (std::int32_t const ep : axes.ep) {
        std::int64_t const inner = static_cast<std::int64_t>(tp) * pp;
        if (pp > r.base.model.layers || r.devices % inner != 0 || r.devices % (static_cast<std::int64_t>(ep) * pp) != 0)
          continue;
        std::int64_t const replicas = r.devices / inner;
        bool const wanted = axes.dp.empty() || std::ranges::find(axes.dp, replicas) != axes.dp.end();
        if (wanted) cuts.push_back({.tp = tp, .pp = pp, .ep = ep, .replicas = replicas});
      }
  return cuts;
}

void add_counts(ServeResult& sum, ServeResult const& one) {
  sum.legal += one.legal, sum.too_big += one.too_big, sum.too_slow += one.too_slow, sum.no_program += one.no_program;
  if (sum.problem.empty()) sum.problem = one.problem;
  lower(sum.least_ttft_ms, one.least_ttft_ms), lower(sum.least_tpot_ms, one.least_tpot_ms);
  if (lower(sum.least_memory_bytes, one.least_memory_bytes)) sum.smallest = one.smallest;
  if (lower(sum.nearest_miss, one.nearest_miss)) sum.nearest = one.nearest;
}

/// Screens every cut on all cores; the order is that of the cuts.
std::vector<ScreenedCut> screen_all(ServeResult& result, ServeRequest const& r, CostModel const& model, double allowed,
                                    Objective objective) {
  std::vector<ServeCut> const cuts = cuts_of(r);
  std::vector<std::pair<ServeResult, std::vector<ScreenedCut>>> found(cuts.size());
  for_each_of(
      cuts.size(),
      [&](std::size_t i, CostModel const& mine) {
        CutSearch search(r, mine, allowed, objective);
        search.run(cuts[i]);
        found[i] = {std::move(search.result), std::move(search.kept)};
      },
      model);
  std::vector<ScreenedCut> kept;
  for (auto const& [counts, some] : found)
    add_counts(result, counts), kept.insert(kept.end(), some.begin(), some.end());
  return kept;
}

/// Cuts that are simulated side by side, whatever the number of cores.
constexpr std::size_t side_by_side = 4;

/// Simulates screened cuts, the best first, until so many keep the limits. Another batch of the same cut is no other
/// answer: it is simulated only where the one before it fails.
void simulate_best(ServeResult& result, std::vector<ScreenedCut> left, ServeRequest const& r, CostModel const& model,
                   double allowed, std::size_t wanted) {
  while (!left.empty() && result.best.size() < wanted) {
    std::vector<ScreenedCut> now, later;
    for (ScreenedCut const& s : left) {
      auto const same = [&](auto const& other) { return same_cut(other.cut, s.cut); };
      if (std::ranges::any_of(result.best, same)) continue;
      bool const waits = now.size() == side_by_side || std::ranges::any_of(now, same);
      (waits ? later : now).push_back(s);
    }
    std::vector<ServedPoint> looks(now.size());
    for_each_of(
        now.size(), [&](std::size_t i, CostModel const& mine) { looks[i] = look_closer(r, mine, now[i].cut); }, model);
    for (ServedPoint& look : looks) {
      if (look.memory_bytes > allowed)
        ++result.too_big;
      else if (is_slow(r, look))
        count_as_slow(result, r, look.cut, look);
      else
        result.best.push_back(std::move(look));
    }
    left = std::move(later);
  }
}

}  // namespace

double ServedPoint::tokens_per_s_per_device() const {
  return 1e3 * static_cast<double>(cut.batch) / (tpot_ms * static_cast<double>(cut.tp * cut.pp));
}

std::vector<std::int64_t> serving_counts(ServeRequest const& r, CostModel const& model, double memory_share,
                                         std::int64_t from, std::int64_t to) {
  check_demands(r.demands);
  Experiment base = r.base;
  base.global_batch = std::max<std::int64_t>(1, r.sequences);
  PlanAxes axes = axes_for(base, to, r.demands);
  axes.cp = {1};
  double const weights = static_cast<double>(count_parameters(base.model).total * bytes_of(base.precision));
  from = std::max(from, static_cast<std::int64_t>(weights / allowed_bytes(model, memory_share)));
  std::set<std::int64_t> counts;
  for (std::int64_t const copy : copy_sizes(axes))
    for (std::int64_t const ep : axes.ep) {
      if (!axes.dp.empty() || r.sequences > 0) {
        for (std::int64_t const replicas : axes.dp.empty() ? axes.micro_batch : axes.dp)
          if (copy * replicas >= from && copy * replicas <= to) counts.insert(copy * replicas);
        continue;
      }
      // More replicas than needed, be it to share experts or to reach `from`, only do the same once more.
      std::int64_t const group = copy * ep, count = group * ((from + group - 1) / group);
      if (count <= to) counts.insert(count);
    }
  return {counts.begin(), counts.end()};
}

ServeResult plan_serving(ServeRequest const& request, CostModel const& model, PlanOptions const& options,
                         Objective objective) {
  check_demands(request.demands);
  double const allowed = allowed_bytes(model, options.memory_share);
  ServeResult result;
  std::vector<ScreenedCut> kept = screen_all(result, request, model, allowed, objective);
  if (result.legal == 0)
    throw InputError(fmt::format(
        "{}: no legal cut of {} devices{}; allowed: other demands, or numbers with more divisors",
        request.demands.empty() ? "--gpus" : fmt::format("{}", fmt::join(texts_of(request.demands), " and ")),
        request.devices,
        request.sequences > 0 ? fmt::format(" and {} sequences (--global-batch)", request.sequences) : ""));
  if (result.legal == result.no_program) throw InputError("plan: no cut has a program: " + result.problem);
  std::ranges::stable_sort(kept, {}, [&](ScreenedCut const& s) { return rank_of(s.cut, s.cost, objective); });
  simulate_best(result, std::move(kept), request, model, allowed, std::max(options.top, options.simulated));
  std::ranges::stable_sort(result.best, {}, [&](ServedPoint const& p) { return rank_of(p.cut, p, objective); });
  if (result.best.size() > options.top) result.best.resize(options.top);
  return result;
}

}  // namespace shardbench
