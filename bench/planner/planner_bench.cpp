// Configurations that the planner costs in a second on one core, layer costs known, and the memory it takes.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include "harness/planner/plan_cost.hpp"

namespace shardbench {
namespace {

PlanRequest llama405b_on_16384() {
  PlanRequest r;
  r.devices = 16384;
  r.base.model_name = "llama3.1-405b";
  r.base.seq = 8192;
  r.base.global_batch = 2048;
  r.base.precision = Dtype::bf16;
  Experiment whole = r.base;
  resolve(whole);
  r.base.model = whole.model;
  r.axes = default_axes(r.base, r.devices);
  return r;
}

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1e3;
}

void cost_whole_space(benchmark::State& state) {
  PlanRequest const request = llama405b_on_16384();
  CostModel const model(load_system("h100-sxm"), load_stack("te-2025"));
  PlanCoster coster(request, model);
  std::int64_t costed = 0;
  double least = 0;
  auto const visit = [&](Candidate const& c) {
    PlanCost const* const cost = coster.cost(c);
    if (!cost) return;
    ++costed;
    if (least == 0 || cost->step_ms < least) least = cost->step_ms;
  };
  for_each_candidate(request, visit);  // layer costs, once
  costed = 0;
  for (auto _ : state) for_each_candidate(request, visit);
  benchmark::DoNotOptimize(least);
  state.counters["configurations/s"] = benchmark::Counter(static_cast<double>(costed), benchmark::Counter::kIsRate);
  state.counters["layer costs"] = static_cast<double>(coster.layer_keys());
  state.counters["peak MB"] = peak_megabytes();
}
BENCHMARK(cost_whole_space)->Unit(benchmark::kMillisecond)->Iterations(5);

}  // namespace
}  // namespace shardbench

BENCHMARK_MAIN();
