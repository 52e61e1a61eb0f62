#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/shardbench/commands.hpp"
#include "bench/shardbench/outputs.hpp"
#include "bench/shardbench/plan_text.hpp"
#include "bench/shardbench/simulated_row.hpp"
#include "bench/shardbench/text.hpp"
#include "harness/config/field_text.hpp"
#include "harness/planner/goodput.hpp"
#include "harness/planner/plan.hpp"
#include "harness/report/columns.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

double option_or(Arguments const& a, std::string const& flag, double least, double most, double otherwise) {
  return a.has(flag) ? parse_number(flag, a.option(flag), least, most) : otherwise;
}

/// "15.6T": a number with K, M, B or T (powers of 1000) behind it or not.
double token_count(std::string_view text) {
  std::size_t const power = text.empty() ? text.npos : std::string_view("KMBT").find(text.back());
  if (power != text.npos) text.remove_suffix(1);
  return parse_number("tokens", text, 0.001, 1e18) * (power == text.npos ? 1 : std::pow(1000, power + 1));
}

std::int64_t device_count(std::string_view text) { return parse_integer("gpus", text, 1, std::int64_t{1} << 24); }

/// "1024" or "1024..16384": each power of two times the first, up to the last.
std::vector<std::int64_t> device_counts(std::string const& text) {
  std::size_t const dots = text.find("..");
  if (dots == std::string::npos) return {device_count(text)};
  std::int64_t const from = device_count(text.substr(0, dots)), to = device_count(text.substr(dots + 2));
  if (to < from) throw InputError(fmt::format("--gpus: '{}'; allowed: FROM..TO with FROM not above TO", text));
  std::vector<std::int64_t> counts;
  for (std::int64_t n = from; n <= to; n *= 2) counts.push_back(n);
  return counts;
}

PlanRequest request_of(Arguments const& arguments, std::int64_t devices) {
  PlanRequest request;
  request.devices = devices;
  request.base.precision = Dtype::bf16;
  for (auto const& [flag, value] : arguments.fields) set_field(request.base, flag, value);
  // Batch and sequence as the unsharded model would have them; each candidate is resolved with its own cut.
  std::int64_t const batch = request.base.global_batch;
  if (batch == 0) throw InputError("--global-batch: missing; the planner needs the samples of a step");
  Experiment whole_model = request.base;
  whole_model.parallel = {};
  resolve(whole_model);
  request.base.model = whole_model.model;
  request.base.seq = whole_model.seq;
  request.axes = default_axes(request.base, devices);
  if (arguments.has("fix"))
    for (std::string const& demand : split_list("fix", arguments.option("fix"))) fix_axis(request.axes, demand);
  if (arguments.has("exclude"))
    for (std::string const& demand : split_list("exclude", arguments.option("exclude")))
      exclude_from_axis(request.axes, demand);
  return request;
}

ReportRow row_of(PlannedPoint const& point, CostModel const& model, std::string const& system,
                 std::string const& stack) {
  ReportRow row = start_row(point.experiment, Source::planned);
  row.command = fmt::format("shardbench simulate {} --system {} --stack {}", command_flags(point.experiment), system,
                            stack);
  StepTotals const totals = total_step(point.experiment);
  set_totals(row, totals);
  set_prediction(row, point.prediction, point.memory, model, totals);
  return row;
}

struct Budget {
  double tokens = 0, deadline_days = 0;
  FailureModel failures;
};

Budget budget_of(Arguments const& a, CostModel const& model) {
  Budget b;
  if (a.has("tokens")) b.tokens = token_count(a.option("tokens"));
  if (a.has("deadline")) {
    std::string days = a.option("deadline");
    if (!days.empty() && days.back() == 'd') days.pop_back();
    b.deadline_days = parse_number("deadline", days, 0.001, 1e6);
    if (b.tokens == 0) throw InputError("--deadline: needs --tokens, the length of the training run");
  }
  b.failures.mtbf_device_hours = model.system().mtbf_device_hours;
  b.failures.checkpoint_s = option_or(a, "checkpoint-seconds", 0, 1e6, b.failures.checkpoint_s);
  b.failures.restart_s = option_or(a, "restart-seconds", 0, 1e6, b.failures.restart_s);
  return b;
}

void print_budget(Budget const& b, PlannedPoint const& best, CostModel const& model, std::int64_t devices) {
  if (b.tokens == 0) return;
  Experiment const& e = best.experiment;
  double const price = model.system().price_per_device_hour;
  Goodput const g = goodput(devices, b.failures);
  TrainingBudget const t = training_budget(b.tokens, static_cast<double>(e.global_batch * e.seq), best.step_ms, devices,
                                           g, 0, price);
  fmt::print("\ntraining  {} tokens: {} steps, {:.1f} days, {} device-hours{}\n", grouped(b.tokens), grouped(t.steps),
             t.days, grouped(std::round(t.device_hours)),
             price > 0 ? fmt::format(", {} USD at {:g} an hour", grouped(std::round(t.cost)), price) : "");
  if (g.job_mtbf_hours > 0)
    fmt::print("goodput   {:.1f}%: a failure every {:.1f} h, a checkpoint every {:.0f} s (Young/Daly), {:g} s a "
               "checkpoint, {:g} s a restart\n",
               100 * g.effective_share, g.job_mtbf_hours, g.checkpoint_interval_s, b.failures.checkpoint_s,
               b.failures.restart_s);
  if (b.deadline_days > 0)
    fmt::print("deadline  {:g} days: {}\n", b.deadline_days,
               t.days <= b.deadline_days ? "met" : fmt::format("missed by {:.1f} days", t.days - b.deadline_days));
}

void write_rows(Arguments const& arguments, PlanResult const& result, CostModel const& model, std::string const& system,
                std::string const& stack, std::vector<ReportRow>& rows) {
  for (PlannedPoint const& point : result.best) {
    rows.push_back(row_of(point, model, system, stack));
    append_result(arguments.option("out"), rows.back(), {});
  }
}

/// One line a device count: where the curve bends.
void print_curve(std::vector<std::pair<std::int64_t, PlannedPoint>> const& curve) {
  if (curve.size() < 2) return;
  fmt::print("\nscaling at a fixed global batch\n");
  std::vector<std::vector<std::string>> lines{{"devices", "step ms", "speed-up", "efficiency %", "cut"}};
  auto const& [first, base] = curve.front();
  for (auto const& [devices, point] : curve) {
    double const gain = base.step_ms / point.step_ms;
    lines.push_back({fmt::format("{}", devices), fmt::format("{:.1f}", point.step_ms), fmt::format("{:.2f}", gain),
                     fmt::format("{:.1f}", 100 * gain * static_cast<double>(first) / static_cast<double>(devices)),
                     cut_text(point.experiment)});
  }
  for (std::string const& line : table_lines(lines)) fmt::print("  {}\n", line);
}

}  // namespace

int plan_command(Arguments const& arguments) {
  std::string const system = arguments.option("system");
  if (system.empty()) throw InputError("--system: missing; `shardbench systems` lists them");
  std::string const stack = arguments.has("stack") ? arguments.option("stack") : "ours";
  if (!arguments.has("gpus")) throw InputError("--gpus: missing; a number of devices, or FROM..TO");
  CostModel const model(load_system(system), load_stack(stack));
  PlanOptions options;
  options.top = static_cast<std::size_t>(arguments.has("top") ? parse_integer("top", arguments.option("top"), 1, 1000) : 5);
  options.simulated = std::max(options.simulated, options.top);
  options.memory_share = option_or(arguments, "max-memory", 1, 100, 100) / 100;
  Budget const budget = budget_of(arguments, model);
  check_outputs(arguments.option("out"));
  bool const json = arguments.has("json");

  std::vector<ReportRow> rows;
  std::vector<std::pair<std::int64_t, PlannedPoint>> curve;
  bool found = true;
  for (std::int64_t const devices : device_counts(arguments.option("gpus"))) {
    PlanRequest const request = request_of(arguments, devices);
    PlanResult result = plan(request, model, options);
    write_rows(arguments, result, model, system, stack, rows);
    found &= !result.best.empty();
    if (!json) print_plan(request, result, model, options, system, stack);
    if (result.best.empty()) continue;
    if (!json) print_budget(budget, result.best.front(), model, devices);
    curve.emplace_back(devices, std::move(result.best.front()));
  }
  if (json)
    fmt::print("{}\n", to_json(std::span(rows)));
  else
    print_curve(curve);
  return found ? 0 : 1;
}

}  // namespace shardbench
