#include "bench/shardbench/replay_point.hpp"

#include <fmt/format.h>

#include "bench/shardbench/outputs.hpp"
#include "bench/shardbench/row_builder.hpp"
#include "bench/shardbench/simulated_row.hpp"
#include "harness/calibrate/replayed.hpp"
#include "harness/program/lower.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

PointResult replay_point(Job& job, Experiment const& e, std::string const& system, std::string const& stack) {
  CostModel const model(load_system(system), load_stack(stack));
  job.use(e.device);
  ReplayedDurations durations(model);
  std::vector<StepProgram> programs;
  for (std::int64_t const rank : representative_ranks(e)) {
    programs.push_back(lower(e, rank));
    std::string const problem = not_executable(programs.back());
    if (!problem.empty()) throw IllegalConfig(problem);
    durations.measure_stage(programs.back(), e, job.device());
  }
  Prediction const prediction = play_step(std::move(programs), model, durations);
  PointResult out;
  StepTotals const totals = total_step(e);
  out.row = start_row(e, Source::replayed);
  out.row.command += fmt::format(" --source replayed --system {} --stack {}", system, stack);
  set_place(out.row, job);
  set_totals(out.row, totals);
  set_prediction(out.row, prediction, memory_fit(prediction.programs, model.system(), model.stack()), model, totals);
  // The compute ran here; only the network is the system's.
  out.row.device = job.device().info().name;
  out.row.attention_kernel = job.device().kernels().attention_kernel;
  out.row.predicted_step_ms = std::nullopt;
  out.ops = predicted_ops_rows(out.row.run_id, prediction.programs.front(), prediction.result.stages.front());
  return out;
}

}  // namespace shardbench
