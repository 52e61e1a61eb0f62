#include "bench/shardbench/plan/plan_input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "harness/config/field_text.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr std::int64_t most_devices = std::int64_t{1} << 24, searched_devices = std::int64_t{1} << 17;

using Units = std::initializer_list<std::pair<std::string_view, double>>;

/// "a number from 1 to 100, with ms or s behind it (without: ms)", "a number >= 1, alone or with K or M behind it".
std::string allowed_text(Units units, double least, double most) {
  std::string words, without;
  for (auto const& [unit, times] : units) {
    words += fmt::format("{}{}", words.empty() ? "" : " or ", unit);
    if (times == 1) without = fmt::format(" (without: {})", unit);
  }
  return fmt::format(
      "a {}{}{}", number_range_text(least, most),
      words.empty() ? "" : fmt::format(", {}with {} behind it", without.empty() ? "alone or " : "", words), without);
}

/// Reads "12", "1.5", "1e12" from the front of the text; nothing where no number stands there.
std::optional<double> take_number(std::string_view& text) {
  double value = 0;
  bool const starts = !text.empty() && (text.front() == '.' || (text.front() >= '0' && text.front() <= '9'));
  auto const [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (!starts || error != std::errc{}) return std::nullopt;
  text.remove_prefix(stop - text.data());
  return value;
}

/// A number with one of these units behind it, in the unit of factor 1; without a unit it is in that one.
double with_unit(std::string_view flag, std::string_view text, Units units, double least, double most) {
  std::string_view behind = text;
  std::optional<double> const number = take_number(behind);
  auto const unit = std::ranges::find(units, behind, &std::pair<std::string_view, double>::first);
  bool const known = behind.empty() || unit != units.end();
  if (number && known && *number >= least && *number <= most) return (behind.empty() ? 1 : unit->second) * *number;
  throw InputError(fmt::format("--{}: {} is not {}", flag, in_quotes(text), allowed_text(units, least, most)));
}

double option_or(Arguments const& a, std::string const& flag, Units units, double least, double most,
                 double otherwise) {
  return a.has(flag) ? with_unit(flag, a.option(flag), units, least, most) : otherwise;
}

std::int64_t device_count(std::string_view text) { return parse_integer("gpus", text, 1, most_devices); }

/// "1024" or "1024..16384": each power of two times the first, up to the last, which is always there.
void read_counts(PlanInput& in, std::string const& text) {
  std::size_t const dots = text.find("..");
  if (dots == std::string::npos) {
    in.counts = {device_count(text)};
    if (in.search && in.counts.front() > 1) in.counts.insert(in.counts.begin(), 1);
    return;
  }
  std::int64_t const from = device_count(text.substr(0, dots)), to = device_count(text.substr(dots + 2));
  if (to < from) throw InputError(fmt::format("--gpus: '{}'; allowed: FROM..TO with FROM not above TO", text));
  for (std::int64_t n = from; n < to; n *= 2) in.counts.push_back(n);
  in.counts.push_back(to);
}

void read_model(PlanInput& in, Arguments const& a) {
  in.base.precision = Dtype::bf16;
  for (auto const& [flag, value] : a.fields) set_field(in.base, flag, value);
  std::int64_t const batch = in.base.global_batch, context = in.base.context;
  if (batch == 0 && !in.serving)
    throw InputError("--global-batch: missing; allowed: the samples of a step over all devices, an integer >= 1");
  if (context > 0 && !in.serving)
    throw InputError(fmt::format(
        "--context: {} given for a training step; allowed with --ttft, --tpot or --objective latency", context));
  // Batch and sequence as the unsharded model would have them; each candidate is resolved with its own cut.
  Experiment whole_model = in.base;
  whole_model.cut = {};
  whole_model.context = 0;
  resolve(whole_model);
  in.base.model = whole_model.model;
  in.base.seq = whole_model.seq;
  if (!in.serving) return;
  if (in.base.model.takes_images())
    throw InputError(
        fmt::format("--model: {} generates nothing to serve; allowed: a language model", in.base.model_name));
  in.sequences = batch;
  in.base.context = context > 0 ? context : in.base.seq;
  if (in.base.model.position == PositionKind::learned)
    in.base.context = std::min(in.base.context, in.base.model.max_positions - 1);
}

void read_budget(PlanInput& in, Arguments const& a, CostModel const& model) {
  RunBudget& b = in.budget;
  b.tokens = option_or(a, "tokens", {{"K", 1e3}, {"M", 1e6}, {"B", 1e9}, {"T", 1e12}}, 0.001, 1e18, 0);
  b.deadline_days = option_or(a, "deadline", {{"d", 1}, {"w", 7}, {"h", 1.0 / 24}}, 0.001, 1e6, 0);
  if (b.deadline_days > 0 && b.tokens == 0)
    throw InputError("--deadline: needs --tokens, the length of the training run");
  if (in.serving && b.tokens > 0)
    throw InputError("--tokens: of a training run, with serving asked for; allowed without --ttft, --tpot and latency");
  if (b.tokens == 0)
    for (char const* const flag : {"mtbf-hours", "checkpoint-seconds", "restart-seconds", "stragglers"})
      if (a.has(flag))
        throw InputError(
            fmt::format("--{}: of a whole training run; allowed with --tokens, the length of the run", flag));
  SystemProfile const& s = model.system();
  b.price_per_device_hour = option_or(a, "price", {}, 0.001, 1e6, s.price_per_device_hour);
  b.failures.mtbf_device_hours = option_or(a, "mtbf-hours", {}, 1, 1e12, s.mtbf_device_hours);
  b.failures.checkpoint_s = option_or(a, "checkpoint-seconds", {}, 0, 1e6, b.failures.checkpoint_s);
  b.failures.restart_s = option_or(a, "restart-seconds", {}, 0, 1e6, b.failures.restart_s);
  b.failures.straggler_share = option_or(a, "stragglers", {{"%", 1}}, 0, 1000, 0) / 100;
}

void read_objective(PlanInput& in, Arguments const& a) {
  bool const limits = a.has("ttft") || a.has("tpot");
  Units const milliseconds{{"ms", 1}, {"s", 1e3}};
  in.ttft_limit_ms = option_or(a, "ttft", milliseconds, 0.001, 1e6, 0);
  in.tpot_limit_ms = option_or(a, "tpot", milliseconds, 0.001, 1e6, 0);
  in.objective = limits ? Objective::tokens_per_gpu_hour : Objective::step_time;
  if (a.has("objective")) in.objective = parse_objective(a.option("objective"));
  in.serving = limits || in.objective == Objective::latency;
  if (in.serving && in.objective == Objective::step_time)
    throw InputError(
        "--objective: 'step-time' is of training, with --ttft or --tpot given; allowed: latency, "
        "tokens-per-gpu-hour, cost, memory, gpus");
  in.search = in.objective == Objective::gpus;
  for (char const* const flag : {"pareto", "what-if"})
    if (in.serving && a.has(flag))
      throw InputError(
          fmt::format("--{}: of a training step; allowed without --ttft, --tpot and --objective latency", flag));
}

std::vector<std::string> list_of(Arguments const& a, std::string const& flag) {
  return a.has(flag) ? split_list(flag, a.option(flag)) : std::vector<std::string>();
}

}  // namespace

CostModel plan_cost_model(Arguments const& arguments) {
  std::string const system = arguments.option("system");
  if (system.empty()) throw InputError("--system: missing; `shardbench systems` lists them");
  return {load_system(system), load_stack(arguments.has("stack") ? arguments.option("stack") : "ours")};
}

PlanInput read_plan_input(Arguments const& a, CostModel const& model) {
  PlanInput in;
  in.system = a.option("system");
  in.stack = a.has("stack") ? a.option("stack") : "ours";
  in.out = a.option("out");
  in.page = ReportPage(a);
  in.json = a.has("json"), in.what_if = a.has("what-if"), in.pareto = a.has("pareto");
  read_objective(in, a);
  if (a.has("gpus"))
    read_counts(in, a.option("gpus"));
  else if (in.search)
    in.counts = {1, searched_devices};
  else
    throw InputError("--gpus: missing; a number of devices, or FROM..TO (--objective gpus does without)");
  in.options.top = a.has("top") ? parse_integer("top", a.option("top"), 1, 1000) : 5;
  in.options.simulated = std::max(in.options.simulated, in.options.top);
  in.options.memory_share = option_or(a, "max-memory", {{"%", 1}}, 1, 100, 100) / 100;
  read_model(in, a);
  in.demands = {list_of(a, "fix"), list_of(a, "exclude")};
  read_budget(in, a, model);
  if (in.objective == Objective::cost && in.budget.price_per_device_hour == 0)
    throw InputError(
        fmt::format("--objective: 'cost' needs a price, {} has none; allowed: with --price, US dollars a "
                    "device-hour",
                    in.system));
  return in;
}

}  // namespace shardbench
