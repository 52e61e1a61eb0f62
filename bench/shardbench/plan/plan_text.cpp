#include "bench/shardbench/plan/plan_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/shardbench/plan/plan_flags.hpp"
#include "bench/shardbench/plan/plan_rows.hpp"
#include "harness/evaluate/error_band.hpp"
#include "harness/planner/explain.hpp"
#include "harness/report/text.hpp"

namespace shardbench {
namespace {

/// An image of a detector is a sequence of one.
std::string rate_heading(Experiment const& e) { return e.model.yolo ? "images/s/device" : "tokens/s/device"; }

constexpr double agreement = 0.02;  // played schedules and simulation within this, or it is said

constexpr std::size_t shown_trials = 12;

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

void print_space(PlanRequest const& r, PlanResult const& result) {
  fmt::print("space\n{}", axes_text(r.axes));
  fmt::print(
      "  {} legal points, {} costed, {} of them too big, {} without a program, {} of micro-batches beyond one that is "
      "too "
      "big or cannot win; {} points that a rule forbids\n\n",
      grouped(static_cast<double>(result.space.legal)), grouped(static_cast<double>(result.costed)),
      grouped(static_cast<double>(result.too_big)), grouped(static_cast<double>(result.no_program)),
      grouped(static_cast<double>(result.left_out)), grouped(static_cast<double>(result.space.illegal)));
}

std::vector<std::string> line_of(PlannedPoint const& p) {
  Experiment const& e = p.experiment;
  Breakdown const& b = p.prediction.breakdown;
  double const tokens = static_cast<double>(e.global_batch * e.seq) / static_cast<double>(e.ranks);
  return {cut_text(e),
          fmt::format("{:.1f}", p.step_ms),
          fmt::format("{:.0f}", 1e3 * tokens / p.step_ms),
          bytes_text(p.memory.needed_bytes),
          fmt::format("{:.1f}", percent(b.bubble_ms, p.step_ms)),
          fmt::format("{:.1f}", percent(b.exposed_comm_ms, p.step_ms))};
}

void print_table(PlanResult const& result) {
  std::vector<std::vector<std::string>> lines{{"cut", "step ms", rate_heading(result.best.front().experiment), "memory",
                                               "bubble %", "exposed comm %", "played"}};
  for (PlannedPoint const& p : result.best) {
    lines.push_back(line_of(p));
    lines.back().push_back(fmt::format("{:+.1f}%", 100 * p.screening_error()));
  }
  for (std::string const& line : table_lines(lines)) fmt::print("  {}\n", line);
}

/// The front: what less memory costs in time (and so in money, the devices being the same).
void print_front(PlanInput const& in, std::vector<PlannedPoint> const& front) {
  if (front.empty()) return;
  fmt::print("\nfront of time, memory and cost: each needs less memory than the one above it\n");
  std::vector<std::vector<std::string>> lines{
      {"cut", "step ms", rate_heading(in.base), "memory", "bubble %", "exposed comm %", "device-hours"}};
  for (PlannedPoint const& p : front) {
    lines.push_back(line_of(p));
    RunCost const cost = run_cost(in, p.experiment, p.step_ms);
    lines.back().push_back(in.budget.tokens > 0 ? grouped(std::round(cost.training.device_hours)) : "");
    if (cost.training.cost > 0)
      lines.back().back() += fmt::format(" ({} USD)", grouped(std::round(cost.training.cost)));
  }
  for (std::string const& line : table_lines(lines)) fmt::print("  {}\n", line);
}

void print_run(PlanInput const& in, PlannedPoint const& best, std::int64_t devices) {
  RunBudget const& b = in.budget;
  if (b.tokens == 0) {
    Experiment const& e = best.experiment;
    double const of_step = static_cast<double>(e.global_batch * e.seq);
    double const hours = best.step_ms / 3.6e6 * static_cast<double>(e.ranks);
    if (b.price_per_device_hour > 0)
      fmt::print("cost      {:.3g} USD a million {} at {:g} USD a device-hour, if nothing fails\n",
                 1e6 * hours * b.price_per_device_hour / of_step, e.model.yolo ? "images" : "tokens",
                 b.price_per_device_hour);
    return;
  }
  auto const& [g, t] = run_cost(in, best.experiment, best.step_ms);
  fmt::print("\ntraining  {} tokens: {} steps, {:.1f} days, {} device-hours{}\n", grouped(b.tokens), grouped(t.steps),
             t.days, grouped(std::round(t.device_hours)),
             b.price_per_device_hour > 0
                 ? fmt::format(", {} USD at {:g} an hour", grouped(std::round(t.cost)), b.price_per_device_hour)
                 : ", no price known (--price)");
  if (g.job_mtbf_hours > 0)
    fmt::print(
        "goodput   {:.1f}%: a failure every {:.3g} h on {} devices, a checkpoint every {:.0f} s (Young/Daly), {:g} s a "
        "checkpoint, {:g} s a restart\n",
        100 * g.effective_share, g.job_mtbf_hours, grouped(static_cast<double>(devices)), g.checkpoint_interval_s,
        b.failures.checkpoint_s, b.failures.restart_s);
  else
    fmt::print(
        "goodput   no failure rate known for this system (--mtbf-hours); the run is told as if nothing failed\n");
  if (b.failures.straggler_share > 0)
    fmt::print("stragglers make each step {:g}% longer: {:.1f} ms\n", 100 * b.failures.straggler_share,
               best.step_ms * (1 + b.failures.straggler_share));
  if (b.deadline_days > 0)
    fmt::print("deadline  {:g} days: {}\n", b.deadline_days,
               t.days <= b.deadline_days ? "met" : fmt::format("missed by {:.1f} days", t.days - b.deadline_days));
}

/// Why plain data parallelism wins, where it does.
void print_plain(CountPlan const& plan, PlannedPoint const& best) {
  Candidate const& c = best.candidate;
  if (c.tp * c.pp * c.cp * c.ep > 1 || c.dp == 1) return;
  if (!plan.plan.fastest_model_cut) {
    fmt::print("plain     data parallelism alone is the only cut that is legal, has a program and fits\n");
    return;
  }
  PlannedPoint const& other = *plan.plan.fastest_model_cut;
  fmt::print(
      "plain     data parallelism alone wins: the model fits a device, and the fastest cut of the model ({}) takes "
      "{:.2f} times as long, {:.1f} ms{}\n",
      cut_text(other.experiment), other.step_ms / best.step_ms, other.step_ms,
      differences_text(": ", best.prediction, other.prediction));
}

void print_best(PlanInput const& in, CountPlan const& plan, SoftwareStack const& stack) {
  PlanResult const& result = plan.plan.result;
  PlannedPoint const& best = result.best.front();
  fmt::print("\nbest      {}, {} microbatches; by {}\n", cut_text(best.experiment), best.experiment.microbatches(),
             to_string(in.objective));
  print_parts(best.prediction);
  fmt::print("accuracy  {}\n", error_band_text(best.experiment, stack));
  if (result.best.size() > 1) {
    PlannedPoint const& next = result.best[1];
    fmt::print("next      {}: {:+.1f} ms, {:+.1f} GB{}\n", cut_text(next.experiment), next.step_ms - best.step_ms,
               1e-9 * (next.memory.needed_bytes - best.memory.needed_bytes),
               differences_text("; ", best.prediction, next.prediction));
  }
  print_plain(plan, best);
  if (std::abs(best.screening_error()) > agreement)
    fmt::print(
        "note      the schedule played by itself is {:+.1f}% from the simulation here; the order is the simulation's\n",
        100 * best.screening_error());
  fmt::print("simulate  {}\n", simulate_command_of(in, best.experiment));
  fmt::print("run       {}\n", run_command_of(best.experiment));
  fmt::print("megatron  {}\n", megatron_flags(best.experiment, stack));
  fmt::print("titan     {}\n", torchtitan_flags(best.experiment));
}

}  // namespace

void print_parts(Prediction const& step) {
  for (auto const& [name, ms] : step_parts(step))
    if (ms > 0) fmt::print("  {:<40}{:>12.2f} ms {:>6.1f}%\n", name, ms, percent(ms, step.step_ms));
}

std::string differences_text(std::string_view before, Prediction const& best, Prediction const& other) {
  std::string text;
  for (auto const& [name, ms] : part_differences(best, other))
    text += fmt::format("{}{:.{}f} ms {} {}", text.empty() ? before : ", ", std::abs(ms), std::abs(ms) < 10 ? 2 : 1,
                        ms > 0 ? "more" : "less", name);
  return text;
}

void print_plan(PlanInput const& in, CountPlan const& plan, CostModel const& model) {
  PlanRequest const& request = plan.request;
  PlanResult const& result = plan.plan.result;
  Experiment const& e = request.base;
  fmt::print("{}: {} layers, seq {}, global batch {}, {} on {} x {}, stack {}; planned\n", e.model_name, e.model.layers,
             e.seq, e.global_batch, to_string(e.precision), request.devices, model.system().device.name,
             model.stack().name);
  print_space(request, result);
  if (result.best.empty()) {
    print_nothing_fits(in, plan, model);
    return;
  }
  print_table(result);
  print_front(in, plan.plan.front);
  print_best(in, plan, model.stack());
  print_run(in, result.best.front(), request.devices);
  if (in.what_if) print_what_ifs(in, plan, model);
}

void print_curve(PlanInput const& in, std::vector<CountPlan> const& plans) {
  fmt::print("scaling of {} at a fixed global batch of {}\n", in.base.model_name, in.base.global_batch);
  bool const run = in.budget.tokens > 0, money = run && in.budget.price_per_device_hour > 0;
  std::vector<std::string> heading{"devices", "step ms", "speed-up", "efficiency %", "memory"};
  for (auto const& [shown, name] : {std::pair{run, "days"}, {run, "device-hours"}, {money, "USD"}})
    if (shown) heading.emplace_back(name);
  heading.emplace_back("cut");
  std::vector<std::vector<std::string>> lines{heading};
  std::vector<std::int64_t> devices;
  std::vector<double> step_ms;
  for (CountPlan const& p : plans) {
    if (p.plan.result.best.empty()) {
      lines.push_back({fmt::format("{}", p.request.devices)});
      lines.back().resize(heading.size());
      lines.back().back() = p.plan.result.costed == 0 ? "no legal cut" : "nothing fits";
      continue;
    }
    PlannedPoint const& best = p.plan.result.best.front();
    devices.push_back(p.request.devices), step_ms.push_back(best.step_ms);
    double const gain = step_ms.front() / best.step_ms;
    double const added = static_cast<double>(devices.back()) / static_cast<double>(devices.front());
    lines.push_back({fmt::format("{}", p.request.devices), fmt::format("{:.1f}", best.step_ms),
                     fmt::format("{:.2f}", gain), fmt::format("{:.1f}", 100 * gain / added),
                     bytes_text(best.memory.needed_bytes)});
    TrainingBudget const t = run_cost(in, best.experiment, best.step_ms).training;
    if (run)
      lines.back().push_back(fmt::format("{:.1f}", t.days)),
          lines.back().push_back(grouped(std::round(t.device_hours)));
    if (money) lines.back().push_back(grouped(std::round(t.cost)));
    lines.back().push_back(cut_text(best.experiment));
  }
  for (std::string const& line : table_lines(lines)) fmt::print("  {}\n", line);
  if (devices.size() < 2) return;
  std::size_t const bend = bend_of(devices, step_ms);
  if (bend + 1 < devices.size())
    fmt::print("bend      at {} devices: {} are {:.2f} times as many and {:.2f} times as fast (below {:g}% of it)\n",
               devices[bend], devices[bend + 1],
               static_cast<double>(devices[bend + 1]) / static_cast<double>(devices[bend]),
               step_ms[bend] / step_ms[bend + 1], 100 * bend_share);
  else
    fmt::print("bend      none up to {} devices: every step keeps {:g}% of the devices it adds\n", devices.back(),
               100 * bend_share);
}

void print_search(PlanInput const& in, DeviceSearch const& search, std::string const& demand, std::string const& unit) {
  fmt::print("fewest devices with {}, of {} to {} (--gpus)\n", demand, in.counts.front(), in.counts.back());
  if (search.ruled_out > 0)
    fmt::print("  {} counts with a legal cut: their layers alone take too long\n", search.ruled_out);
  std::vector<DeviceTrial> const& trials = search.trials;
  std::size_t const hidden = trials.size() > shown_trials ? trials.size() - shown_trials : 0;
  if (hidden > 0)
    fmt::print("  {} counts with a legal cut from {} to {}: none is enough\n", hidden, trials.front().devices,
               trials[hidden - 1].devices);
  std::vector<std::vector<std::string>> lines{{"devices", unit, "answer"}};
  for (std::size_t i = hidden; i < trials.size(); ++i) {
    DeviceTrial const& t = trials[i];
    lines.push_back({fmt::format("{}", t.devices), t.time > 0 ? fmt::format("{:.1f}", t.time) : "",
                     t.meets       ? "enough"
                     : !t.possible ? "no legal cut fits"
                                   : fmt::format("too slow{}", t.simulated ? "" : " by the closed forms")});
  }
  for (std::string const& line : table_lines(lines)) fmt::print("  {}\n", line);
  if (search.devices > 0)
    fmt::print("devices   {} are enough{}\n", search.devices,
               search.untried.empty() ? ": every smaller count with a legal cut is not" : "");
  else
    fmt::print("devices   none of these counts is enough\n");
  if (!search.untried.empty())
    fmt::print("untried   {} counts with a legal cut from {} to {}; --gpus FROM..TO looks at some of them\n",
               search.untried.size(), search.untried.front(), search.untried.back());
  fmt::print("\n");
}

}  // namespace shardbench
