// Op events a second of the event simulation: bench_simulate.
#include <benchmark/benchmark.h>

#include "harness/simulate/predict.hpp"
#include "harness/simulate/stack_program.hpp"

namespace shardbench {
namespace {

void play(benchmark::State& state, std::vector<StepProgram> const& programs, DurationModel const& durations,
          bool spans) {
  std::int64_t events = 0;
  for (auto _ : state) events += simulate(programs, durations, {.record_spans = spans}).op_events;
  state.SetItemsProcessed(events);
}

/// 1F1B, 16 stages, 512 microbatches, no operation below the chunk.
class Unit final : public DurationModel {
 public:
  double compute_ms(StepProgram const&, Op const&, bool) const final { return 1; }
  double collective_ms(StepProgram const&, Op const&) const final { return 0; }
  double transfer_ms(StepProgram const&, Op const&) const final { return 0; }
};

void bare_schedule(benchmark::State& state) {
  auto const programs = schedule_programs(make_schedule(ScheduleKind::one_f_one_b, state.range(0), 1, state.range(1)));
  play(state, programs, Unit(), false);
}
BENCHMARK(bare_schedule)->Args({16, 512})->Args({64, 4096})->Unit(benchmark::kMillisecond);

/// Microbatches, and whether every span is kept.
void llama_405b(benchmark::State& state) {
  Experiment e;
  for (auto const& [flag, value] :
       std::initializer_list<std::pair<char const*, char const*>>{{"model", "llama3.1-405b"},
                                                                  {"tp", "8"},
                                                                  {"pp", "16"},
                                                                  {"dp", "128"},
                                                                  {"seq", "8192"},
                                                                  {"precision", "bf16"},
                                                                  {"sequence-parallel", "true"}})
    set_field(e, flag, value);
  e.global_batch = 128 * state.range(0);
  resolve(e);
  CostModel const model(load_system("h100-sxm"), load_stack("te-2025"));
  std::vector<StepProgram> programs;
  for (LoweredStage& stage : with_stack(lower_step(e).stages, model.stack()))
    programs.push_back(std::move(stage).take());
  play(state, programs, model, state.range(1) != 0);
}
BENCHMARK(llama_405b)->Args({16, 0})->Args({16, 1})->Args({256, 0})->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shardbench

BENCHMARK_MAIN();
