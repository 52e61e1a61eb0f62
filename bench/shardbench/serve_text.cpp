#include "bench/shardbench/serve_text.hpp"

#include <fmt/format.h>

#include "bench/shardbench/plan_rows.hpp"
#include "bench/shardbench/plan_text.hpp"
#include "bench/shardbench/text.hpp"
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
    std::string const why = differences_text(best.decode_step, next.decode_step);
    fmt::print("next      {}: {:+.2f} ms tpot, {:+.1f} ms ttft, {:+.0f} tokens/s/device{}{}\n", serve_text(next.cut),
               next.tpot_ms - best.tpot_ms, next.ttft_ms - best.ttft_ms,
               next.tokens_per_s_per_device() - best.tokens_per_s_per_device(), why.empty() ? "" : "; a token has ",
               why);
  }
  fmt::print("prompt    {}\n          {}\n", simulate_command_of(in, best.prefill), run_command_of(best.prefill));
  fmt::print("token     {}\n          {}\n", simulate_command_of(in, best.decode), run_command_of(best.decode));
}

/// The first doubling of the devices on which something fits and keeps the limits.
void print_more_devices(PlanInput const& in, ServeRequest request, CostModel const& model) {
  PlanOptions quick = in.options;
  quick.top = quick.simulated = 1;
  std::int64_t const most = most_times * request.devices;
  for (request.devices *= 2; request.devices <= most; request.devices *= 2) {
    try {
      ServeResult const more = plan_serving(request, model, quick, in.objective);
      if (more.best.empty()) continue;
      ServedPoint const& p = more.best.front();
      fmt::print("change    {} devices: {}, ttft {:.1f} ms, tpot {:.2f} ms, {}\n", request.devices, serve_text(p.cut),
                 p.ttft_ms, p.tpot_ms, bytes_text(p.memory_bytes));
      return;
    } catch (InputError const&) {
      continue;  // no legal cut of so many
    }
  }
  fmt::print("change    no device count up to {} does\n", most);
}

void print_nothing(PlanInput const& in, ServeRequest const& request, ServeResult const& result,
                   CostModel const& model) {
  double const allowed = allowed_bytes(model, in.options.memory_share);
  if (result.too_slow == 0) {
    fmt::print("nothing fits: the smallest, {}, needs {} of {} a device\n", serve_text(result.smallest),
               bytes_text(result.least_memory_bytes), bytes_text(allowed));
  } else {
    fmt::print(
        "too slow  nothing that fits keeps {}: the least ttft is {:.1f} ms and the least tpot {:.2f} ms, not of one "
        "cut\n",
        limits_text(in), result.least_ttft_ms, result.least_tpot_ms);
  }
  print_more_devices(in, request, model);
}

}  // namespace

std::string limits_text(PlanInput const& in) {
  std::string text;
  if (in.ttft_limit_ms > 0) text = fmt::format("ttft {:g} ms", in.ttft_limit_ms);
  if (in.tpot_limit_ms > 0) text += fmt::format("{}tpot {:g} ms", text.empty() ? "" : " and ", in.tpot_limit_ms);
  return text.empty() ? "no limit" : text;
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
    print_nothing(in, request, result, model);
    return;
  }
  print_table(in, result);
  print_best(in, result);
}

}  // namespace shardbench
