#include "bench/shardbench/plan/serve_text.hpp"

#include <fmt/format.h>

#include <optional>

#include "bench/shardbench/plan/plan_rows.hpp"
#include "bench/shardbench/plan/plan_text.hpp"
#include "harness/report/text.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr double seconds_per_hour = 3600;
constexpr std::int64_t most_times = 16;  // the devices that were asked for

std::string serve_text(ServeCut const& c) {
  std::string text = fmt::format("tp {}, pp {}", c.tp, c.pp);
  if (c.ep > 1) text += fmt::format(", ep {}", c.ep);
  text += fmt::format(", {} replica{} of {}", c.replicas, c.replicas == 1 ? "" : "s", c.batch);
  return text + (c.microbatches > 1 ? fmt::format(" in {} microbatches", c.microbatches) : "");
}

void print_table(PlanInput const& in, ServeResult const& result) {
  double const price = in.budget.price_per_device_hour;
  std::vector<std::vector<std::string>> lines{{"cut", "ttft ms", "tpot ms", "tokens/s/device", "memory"}};
  if (price > 0) lines.front().emplace_back("USD a million tokens");
  for (ServedPoint const& p : result.best) {
    double const rate = p.tokens_per_s_per_device();
    lines.push_back({serve_text(p.cut), fmt::format("{:.1f}", p.ttft_ms), fmt::format("{:.2f}", p.tpot_ms),
                     fmt::format("{:.0f}", rate), bytes_text(p.memory_bytes)});
    if (price > 0) lines.back().push_back(fmt::format("{:.3f}", 1e6 * price / seconds_per_hour / rate));
  }
  for (std::string const& line : table_lines(lines)) fmt::print("  {}\n", line);
}

void print_best(PlanInput const& in, ServeResult const& result) {
  ServedPoint const& best = result.best.front();
  fmt::print("\nbest      {}; by {}\n", serve_text(best.cut), to_string(in.objective));
  fmt::print("a prompt, {:.1f} ms\n", best.ttft_ms);
  print_parts(best.prefill_step);
  fmt::print("a token of each sequence, {:.2f} ms\n", best.tpot_ms);
  print_parts(best.decode_step);
  if (result.best.size() > 1) {
    ServedPoint const& next = result.best[1];
    fmt::print("next      {}: {:+.2f} ms tpot, {:+.1f} ms ttft, {:+.0f} tokens/s/device{}\n", serve_text(next.cut),
               next.tpot_ms - best.tpot_ms, next.ttft_ms - best.ttft_ms,
               next.tokens_per_s_per_device() - best.tokens_per_s_per_device(),
               differences_text("; a token has ", best.decode_step, next.decode_step));
  }
  fmt::print("prompt    {}\n          {}\n", simulate_command_of(in, best.prefill), run_command_of(best.prefill));
  fmt::print("token     {}\n          {}\n", simulate_command_of(in, best.decode), run_command_of(best.decode));
}

/// The first doubling of the devices on which something fits and keeps the limits. What the most of them do not do,
/// fewer do not either: they have fewer ways to cut, so those are tried first.
void print_more_devices(PlanInput const& in, ServeRequest request, CostModel const& model) {
  PlanOptions quick = in.options;
  quick.top = 1, quick.simulated = 2;
  std::int64_t const fewest = 2 * request.devices, most = most_times * request.devices;
  // Whether any cut does shows with the fewest sequences, which is quickly tried.
  auto const plan_on = [&](std::int64_t devices, Objective objective) -> std::optional<ServedPoint> {
    request.devices = devices;
    try {
      ServeResult result = plan_serving(request, model, quick, objective);
      if (!result.best.empty()) return std::move(result.best.front());
    } catch (InputError const&) {  // no legal cut of so many
    }
    return std::nullopt;
  };
  if (plan_on(most, Objective::latency))
    for (std::int64_t n = fewest; n <= most; n *= 2) {
      if (!plan_on(n, Objective::latency)) continue;
      std::optional<ServedPoint> const p = plan_on(n, in.objective);
      if (!p) continue;
      fmt::print("change    {} devices: {}, ttft {:.1f} ms, tpot {:.2f} ms, {}\n", n, serve_text(p->cut), p->ttft_ms,
                 p->tpot_ms, bytes_text(p->memory_bytes));
      return;
    }
  fmt::print("change    no device count up to {} does\n", most);
}

/// "the least ttft is 812.3 ms, 312.3 ms (62%) more than 500 ms"; empty when the limit can be kept.
std::string missed_text(std::string_view name, double least, double limit) {
  if (limit == 0 || least <= limit) return {};
  return fmt::format("the least {} is {:.4g} ms, {:.4g} ms ({:.0f}%) more than {:g} ms", name, least, least - limit,
                     100 * (least / limit - 1), limit);
}

}  // namespace

std::string limits_text(PlanInput const& in) {
  std::string text;
  if (in.ttft_limit_ms > 0) text = fmt::format("ttft {:g} ms", in.ttft_limit_ms);
  if (in.tpot_limit_ms > 0) text += fmt::format("{}tpot {:g} ms", text.empty() ? "" : " and ", in.tpot_limit_ms);
  return text.empty() ? "no limit" : text;
}

std::string why_none(PlanInput const& in, ServeRequest const& r, ServeResult const& result, CostModel const& model) {
  double const allowed = allowed_bytes(model, in.options.memory_share);
  if (result.too_slow == 0)
    return fmt::format("nothing fits: the smallest, {}, needs {} of {} a device, {} too much",
                       serve_text(result.smallest), bytes_text(result.least_memory_bytes), bytes_text(allowed),
                       bytes_text(result.least_memory_bytes - allowed));
  std::string const ttft = missed_text("ttft", result.least_ttft_ms, r.ttft_limit_ms),
                    tpot = missed_text("tpot", result.least_tpot_ms, r.tpot_limit_ms);
  std::string const which =
      ttft.empty() && tpot.empty()
          ? fmt::format("each limit can be kept, but not both by one cut (least ttft {:.4g} ms, least tpot {:.4g} ms)",
                        result.least_ttft_ms, result.least_tpot_ms)
          : ttft + (ttft.empty() || tpot.empty() ? "" : "; ") + tpot;
  return fmt::format("too slow: nothing that fits on {} devices keeps {}: {}; nearest: {}, {:.0f}% over", r.devices,
                     limits_text(in), which, serve_text(result.nearest), 100 * (result.nearest_miss - 1));
}

void print_serving(PlanInput const& in, ServeRequest const& request, ServeResult const& result,
                   CostModel const& model) {
  Experiment const& e = request.base;
  fmt::print("{}: {} layers, prompts of {}, tokens after {}, {} on {} x {}, stack {}; {}; planned\n", e.model_name,
             e.model.layers, e.seq, e.context, to_string(e.precision), request.devices, model.system().device.name,
             model.stack().name, limits_text(in));
  fmt::print(
      "  {} legal points, {} too big, {} too slow, {} without a program; ttft is one prompt on an idle replica, "
      "memory the weights, the caches and one prompt beside them\n\n",
      result.legal, result.too_big, result.too_slow, result.no_program);
  if (!result.problem.empty()) fmt::print("  without a program: {}\n\n", result.problem);
  if (result.best.empty()) {
    fmt::print("{}\n", why_none(in, request, result, model));
    print_more_devices(in, request, model);
    return;
  }
  print_table(in, result);
  print_best(in, result);
}

}  // namespace shardbench
