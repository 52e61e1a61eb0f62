// The parts of plan's answer that look beyond the space: what would fit, what a change would bring.
#include <fmt/format.h>

#include <cmath>

#include "bench/shardbench/plan/plan_flags.hpp"
#include "bench/shardbench/plan/plan_text.hpp"
#include "harness/planner/explain.hpp"
#include "harness/planner/what_if.hpp"
#include "harness/report/text.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr std::int64_t most_devices = std::int64_t{1} << 20;

std::string candidate_text(Candidate const& c) {
  return fmt::format("tp {}, pp {}, dp {}, cp {}, ep {}, zero {}, recompute {}, mb {}", c.tp, c.pp, c.dp, c.cp, c.ep,
                     static_cast<int>(c.zero_stage), to_string(c.recompute), c.micro_batch);
}

void print_relaxed(PlanInput const& in, PlanRequest const& request, CostModel const& model, double allowed) {
  for (RelaxedDemands const& r : relaxed(in.demands)) {
    std::optional<PlannedPoint> const fit =
        smallest_that_fits(request_for(request.base, request.devices, r.demands), model, allowed);
    if (fit)
      fmt::print("change    fits without {}: {} needs {}\n", r.without, candidate_text(fit->candidate),
                 bytes_text(fit->memory.needed_bytes));
  }
}

void print_more_devices(PlanInput const& in, PlanRequest const& request, CostModel const& model, double allowed) {
  for (std::int64_t n = 2 * request.devices; n <= most_devices; n *= 2) {
    std::optional<PlannedPoint> const fit =
        smallest_that_fits(request_for(request.base, n, in.demands), model, allowed);
    if (!fit) continue;
    fmt::print("change    fits on {} devices: {} needs {}\n", grouped(static_cast<double>(n)),
               candidate_text(fit->candidate), bytes_text(fit->memory.needed_bytes));
    return;
  }
  fmt::print("change    no device count up to {} makes it fit\n", grouped(static_cast<double>(most_devices)));
}

std::string share_text(double ms, double best_ms) {
  return fmt::format("{:.1f} ms ({:+.1f}%)", ms, 100 * (ms / best_ms - 1));
}

}  // namespace

void print_nothing_fits(PlanInput const& in, CountPlan const& plan, CostModel const& model) {
  PlanResult const& result = plan.plan.result;
  double const allowed = allowed_bytes(model, in.options.memory_share);
  if (result.least_memory_bytes <= allowed && !result.problem.empty()) {
    fmt::print("nothing runs: what would fit has no program: {}\n", result.problem);
    return;
  }
  fmt::print("nothing fits: of {} costed points the smallest needs {} of {} a device ({})\n",
             grouped(static_cast<double>(result.costed)), bytes_text(result.least_memory_bytes), bytes_text(allowed),
             candidate_text(result.smallest));
  for (OversizedLayer const& layer : oversized_layers(plan.request, model, allowed)) {
    fmt::print("layer     one {} of {} parameters needs {} uncut, more than a device has", layer.piece,
               grouped(layer.parameters), bytes_text(layer.bytes));
    if (layer.tp > 0) fmt::print(": at least tp {} ({})", layer.tp, bytes_text(layer.bytes_with_tp));
    if (layer.ep > 0) fmt::print("{}ep {}", layer.tp > 0 ? ", or " : ": at least ", layer.ep);
    if (layer.tp == 0 && layer.ep == 0) fmt::print(", whatever the tp");
    fmt::print("\n");
  }
  print_relaxed(in, plan.request, model, allowed);
  print_more_devices(in, plan.request, model, allowed);
  fmt::print("change    or a device with {} of memory\n", bytes_text(std::ceil(result.least_memory_bytes)));
}

void print_what_ifs(PlanInput const& in, CountPlan const& plan, CostModel const& model) {
  PlannedPoint const& best = plan.plan.result.best.front();
  fmt::print("\nwhat if, step of {:.1f} ms\n", best.step_ms);
  for (WhatIf const& w : hardware_what_ifs(plan.request, model, best, in.options)) {
    std::string const same = w.same_cut_ms > 0 ? share_text(w.same_cut_ms, best.step_ms) : w.problem;
    fmt::print("  {:<36}same cut {}{}\n", w.change, same,
               w.replanned ? fmt::format("; planned again {}: {}", share_text(w.replanned->step_ms, best.step_ms),
                                         cut_text(w.replanned->experiment))
                           : "");
  }
  for (WhatIf const& w : cut_what_ifs(plan.request, model, best, in.options))
    fmt::print("  {:<36}{}\n", w.change, w.same_cut_ms > 0 ? share_text(w.same_cut_ms, best.step_ms) : w.problem);
}

}  // namespace shardbench
