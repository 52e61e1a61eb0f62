#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "bench/shardbench/cli/commands.hpp"
#include "bench/shardbench/cli/experiment_of.hpp"
#include "bench/shardbench/cli/outputs.hpp"
#include "bench/shardbench/plan/plan_facts.hpp"
#include "bench/shardbench/plan/plan_rows.hpp"
#include "bench/shardbench/plan/plan_text.hpp"
#include "bench/shardbench/plan/serve_text.hpp"
#include "harness/planner/count_bound.hpp"
#include "harness/report/columns.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr double seconds_per_day = 86400;
/// A count of devices is judged by more than the cut that the closed forms tell fastest: they may err by more than two
/// cuts differ.
constexpr std::size_t simulated_in_search = 4;
/// Counts that are tried one by one; beyond them the search doubles, and says what it passed over.
constexpr std::size_t most_trials = 512, most_served_trials = 48;

/// `best`: whose timeline a report shows, nullptr where nothing fits or a request is served, not trained.
void write_rows(PlanInput const& in, std::vector<ReportRow>& rows, CostModel const& model,
                CountPlan const* best = nullptr) {
  if (!in.serving) mark_front(rows);
  for (ReportRow const& row : rows) append_result(in.out, row, {});
  if (in.json) fmt::print("{}\n", to_json(std::span(rows)));
  if (!in.page.wanted()) return;
  PlannedFacts facts;
  if (best && !best->plan.result.best.empty()) facts = planned_facts(in, *best, model, rows);
  in.page.write(rows, facts.ops, facts.facts);
}

CountPlan plan_count(PlanInput const& in, CostModel const& model, std::int64_t devices, PlanOptions const& options) {
  CountPlan count;
  count.request = request_for(in.base, devices, in.demands);
  require_legal_point(count.request, in.demands);
  count.plan = plan_for(count.request, model, options, in.objective, in.pareto);
  return count;
}

/// The rows of a count: its best, its front, or why nothing fits.
void add_rows(PlanInput const& in, CostModel const& model, CountPlan const& count, std::vector<ReportRow>& rows) {
  PlanResult const& result = count.plan.result;
  for (PlannedPoint const& point : result.best) rows.push_back(planned_row(in, model, point));
  for (PlannedPoint const& point : count.plan.front)
    if (std::ranges::none_of(result.best, [&](PlannedPoint const& b) { return b.candidate == point.candidate; }))
      rows.push_back(planned_row(in, model, point));
  if (!result.best.empty() || result.costed == 0) return;
  try {
    rows.push_back(planned_row(in, model, look_closer(count.request, model, result.smallest)));
  } catch (IllegalConfig const&) {
    return;  // the smallest by the closed forms turns out to have no program: nothing to show
  }
  ReportRow& row = rows.back();
  row.outcome = Outcome::failed;
  if (row.reason.empty()) row.reason = fmt::format("needs more than --max-memory {:g}%", 100 * in.options.memory_share);
}

/// Why there is no plan for a count.
ReportRow row_without_cut(PlanInput const& in, std::int64_t devices) {
  Experiment e = in.base;
  e.ranks = devices;
  ReportRow row = start_row(e, Source::planned);
  row.outcome = Outcome::skipped;
  try {
    require_legal_point(request_for(in.base, devices, in.demands), in.demands);
  } catch (InputError const& refusal) {
    row.reason = refusal.what();
  }
  return row;
}

/// What the objective makes small, over device counts.
double value_of(PlanInput const& in, CountPlan const& count) {
  PlannedPoint const& best = count.plan.result.best.front();
  RunCost const cost = run_cost(in, best.experiment, best.step_ms);
  double const device_ms = best.step_ms * static_cast<double>(count.request.devices);
  switch (in.objective) {
    case Objective::memory:
      return best.memory.needed_bytes;
    case Objective::gpus:
      return static_cast<double>(count.request.devices);
    case Objective::cost:
    case Objective::tokens_per_gpu_hour:
      return in.budget.tokens > 0 ? cost.training.device_hours : device_ms;
    default:
      return best.step_ms;
  }
}

bool meets_deadline(PlanInput const& in, CountPlan const& count) {
  if (count.plan.result.best.empty()) return false;
  if (in.budget.deadline_days == 0) return true;
  PlannedPoint const& best = count.plan.result.best.front();
  return run_cost(in, best.experiment, best.step_ms).training.days <= in.budget.deadline_days;
}

/// The best count by the objective: among those that meet the deadline, if any does. Nullptr when nothing fits.
CountPlan const* chosen(PlanInput const& in, std::vector<CountPlan> const& plans) {
  CountPlan const* best = nullptr;
  auto const rank_of = [&](CountPlan const& p) { return std::pair{!meets_deadline(in, p), value_of(in, p)}; };
  for (CountPlan const& p : plans)
    if (!p.plan.result.best.empty() && (!best || rank_of(p) < rank_of(*best))) best = &p;
  return best;
}

int plan_counts(PlanInput const& in, CostModel const& model) {
  std::vector<CountPlan> plans;
  std::vector<ReportRow> rows;
  for (std::int64_t const devices : in.counts) {
    // Of several counts some may have no legal cut; of all of them, the last says why.
    bool const last = devices == in.counts.back() &&
                      std::ranges::all_of(rows, [](ReportRow const& r) { return r.outcome == Outcome::skipped; });
    if (!last && !legal_request(in.base, devices, in.demands)) {
      plans.push_back({.request = {.base = in.base, .devices = devices, .axes = {}}, .plan = {}});
      rows.push_back(row_without_cut(in, devices));
      continue;
    }
    plans.push_back(plan_count(in, model, devices, in.options));
    add_rows(in, model, plans.back(), rows);
  }
  CountPlan const* const best = chosen(in, plans);
  write_rows(in, rows, model, best);
  if (in.json) return best ? 0 : 1;
  if (plans.size() > 1) print_curve(in, plans), fmt::print("\n");
  auto const tried =
      std::ranges::find_if(plans.rbegin(), plans.rend(), [](CountPlan const& p) { return p.plan.result.costed > 0; });
  print_plan(in, best ? *best : *tried, model);
  return best ? 0 : 1;
}

/// The least count that could meet the deadline with its devices at their peak: 6 FLOPs a token and parameter it is
/// multiplied with, at the faster of the run's and the stack's linear precision.
std::int64_t least_count(PlanInput const& in, CostModel const& model) {
  std::int64_t const first = in.counts.front();
  if (in.budget.deadline_days == 0 || in.base.model.yolo) return first;
  Dtype const linear = model.stack().linear_precision;
  double const run = model.system().peak_tflops_of(in.base.precision);
  double const peak = 1e12 * (linear == Dtype::f32 ? run : std::max(run, model.system().peak_tflops_of(linear)));
  ParameterCount const parameters = count_parameters(in.base.model);
  auto const active = static_cast<double>(parameters.active - (parameters.head > 0 ? parameters.embedding : 0));
  double const device_days = 6 * active * in.budget.tokens / peak / seconds_per_day;
  double const least = std::ceil(device_days / in.budget.deadline_days);
  return std::max(first, static_cast<std::int64_t>(std::min(least, static_cast<double>(in.counts.back()))));
}

/// Nothing up to the last count is enough: what the nearest of those tried comes to, and what it lacks.
int fail_fewest(PlanInput const& in, CostModel const& model, DeviceSearch const& search) {
  std::vector<ReportRow> rows;
  DeviceTrial const* nearest = nullptr;
  for (DeviceTrial const& t : search.trials)
    if (t.possible && (!nearest || t.time <= nearest->time)) nearest = &t;
  if (!nearest && !search.trials.empty()) nearest = &search.trials.back();
  CountPlan const count = plan_count(in, model, nearest ? nearest->devices : in.counts.back(), in.options);
  add_rows(in, model, count, rows);
  std::string reason;
  if (!count.plan.result.best.empty()) {
    PlannedPoint const& best = count.plan.result.best.front();
    double const days = run_cost(in, best.experiment, best.step_ms).training.days;
    reason = fmt::format("deadline of {:g} days missed by {:.1f} days on {} devices, the nearest of {} to {} (--gpus)",
                         in.budget.deadline_days, days - in.budget.deadline_days, count.request.devices,
                         in.counts.front(), in.counts.back());
    for (ReportRow& row : rows) row.outcome = Outcome::failed, row.reason = reason;
  }
  write_rows(in, rows, model, &count);
  if (in.json) return 1;
  if (reason.empty())
    print_plan(in, count, model);
  else
    fmt::print("{}\n", reason);
  return 1;
}

/// Days of the run for each ms of a step on so many devices; 0 where they fail too often to get on.
double days_per_ms(PlanInput const& in, std::int64_t devices) {
  RunBudget const& b = in.budget;
  try {
    return training_budget(b.tokens, static_cast<double>(in.base.global_batch * in.base.seq), 1, devices,
                           goodput(devices, b.failures), b.failures.straggler_share, 0)
        .days;
  } catch (InputError const&) {
    return 0;
  }
}

/// A simulated step can take that much less than the layers of its fullest stage: costs of layers are means.
constexpr double bound_slack = 0.97;

/// The fewest devices in which a model fits and, with a deadline, which meet it.
int plan_fewest(PlanInput const& in, CostModel const& model) {
  PlanOptions quick = in.options;
  quick.top = 1, quick.simulated = simulated_in_search;
  bool const deadline = in.budget.deadline_days > 0;
  PlanRequest const shared{.base = in.base, .devices = 1, .axes = {}};
  PlanCoster coster(shared, model);
  auto const attempt = [&](std::int64_t devices) {
    double const days = deadline ? days_per_ms(in, devices) : 1;
    std::optional<PlanRequest> const request = legal_request(in.base, devices, in.demands);
    if (!request || days == 0) return DeviceTrial{.devices = devices};
    double const enough_ms = deadline ? in.budget.deadline_days / days : std::numeric_limits<double>::infinity();
    DeviceTrial trial = try_step(*request, model, quick, enough_ms, coster);
    trial.time *= days;
    return trial;
  };
  std::vector<std::int64_t> counts = possible_counts(in.base, in.demands, least_count(in, model), in.counts.back());
  std::size_t const possible = counts.size();
  if (deadline) {
    PlanRequest const widest{.base = in.base, .devices = 1, .axes = axes_for(in.base, in.counts.back(), in.demands)};
    CountBound const bound(widest, coster);
    std::erase_if(counts, [&](std::int64_t devices) {
      return bound_slack * bound.step_ms(devices) * days_per_ms(in, devices) > in.budget.deadline_days;
    });
  }
  DeviceSearch search = fewest_devices(counts, most_trials, attempt);
  search.ruled_out = possible - counts.size();
  if (!in.json)
    print_search(in, search,
                 deadline ? fmt::format("the run over within {:g} days", in.budget.deadline_days) : "a cut that fits",
                 deadline ? "days" : "step ms");
  if (search.devices == 0) return fail_fewest(in, model, search);
  std::vector<ReportRow> rows;
  CountPlan const count = plan_count(in, model, search.devices, in.options);
  add_rows(in, model, count, rows);
  write_rows(in, rows, model, &count);
  if (!in.json) print_plan(in, count, model);
  return 0;
}

ServeRequest serve_request(PlanInput const& in, std::int64_t devices) {
  return {.base = in.base,
          .devices = devices,
          .sequences = in.sequences,
          .ttft_limit_ms = in.ttft_limit_ms,
          .tpot_limit_ms = in.tpot_limit_ms,
          .demands = in.demands};
}

/// The prompt and the token of what comes nearest, as failed; nothing where nothing has a program.
void add_failed(std::vector<ReportRow>& rows, PlanInput const& in, CostModel const& model, ServeRequest const& request,
                ServeResult const& result) {
  ServeCut const& cut = result.too_slow > 0 ? result.nearest : result.smallest;
  for (ReportRow& row : served_rows(in, model, look_closer(request, model, cut))) {
    row.outcome = Outcome::failed;
    row.reason = why_none(in, request, result, model);
    rows.push_back(std::move(row));
  }
}

int show_serving(PlanInput const& in, CostModel const& model, std::vector<std::int64_t> const& counts) {
  std::vector<ReportRow> rows;
  bool found = false;
  for (std::int64_t const devices : counts) {
    ServeRequest const request = serve_request(in, devices);
    ServeResult const result = plan_serving(request, model, in.options, in.objective);
    found |= !result.best.empty();
    for (ServedPoint const& point : result.best)
      for (ReportRow& row : served_rows(in, model, point)) rows.push_back(std::move(row));
    if (result.best.empty()) add_failed(rows, in, model, request, result);
    if (!in.json) print_serving(in, request, result, model);
  }
  write_rows(in, rows, model);
  return found ? 0 : 1;
}

int serve_fewest(PlanInput const& in, CostModel const& model) {
  auto const attempt = [&](std::int64_t devices) {
    DeviceTrial trial{.devices = devices};
    try {
      PlanOptions quick = in.options;
      quick.top = 1, quick.simulated = simulated_in_search;
      ServeResult const result = plan_serving(serve_request(in, devices), model, quick, in.objective);
      trial.simulated = true;
      trial.possible = !result.best.empty() || result.too_slow > 0;
      trial.meets = !result.best.empty();
      trial.time = trial.meets ? result.best.front().tpot_ms : result.least_tpot_ms;
    } catch (InputError const&) {
      trial.possible = false;  // no legal cut of so many devices
    }
    return trial;
  };
  std::vector<std::int64_t> const counts = serving_counts(serve_request(in, in.counts.back()), model,
                                                          in.options.memory_share, in.counts.front(), in.counts.back());
  DeviceSearch const search = fewest_devices(counts, most_served_trials, attempt);
  if (!in.json) print_search(in, search, limits_text(in), "tpot ms");
  if (search.devices > 0) return show_serving(in, model, {search.devices});
  std::int64_t nearest = search.trials.empty() ? in.counts.back() : search.trials.back().devices;
  double least = 0;
  for (DeviceTrial const& t : search.trials)
    if (t.possible && (least == 0 || t.time < least)) nearest = t.devices, least = t.time;
  return show_serving(in, model, {nearest});
}

}  // namespace

int plan_command(Arguments const& arguments) {
  CostModel const model = plan_cost_model(arguments);
  PlanInput const in = read_plan_input(arguments, model);
  note_default_model(in.base);
  print_warnings(in.base);
  check_outputs(in.out);
  if (in.serving) return in.search ? serve_fewest(in, model) : show_serving(in, model, in.counts);
  return in.search ? plan_fewest(in, model) : plan_counts(in, model);
}

}  // namespace shardbench
