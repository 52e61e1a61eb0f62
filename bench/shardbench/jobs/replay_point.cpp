#include "bench/shardbench/jobs/replay_point.hpp"

#include <fmt/format.h>

#include "bench/shardbench/cli/outputs.hpp"
#include "bench/shardbench/jobs/row_builder.hpp"
#include "harness/calibrate/replayed.hpp"
#include "harness/config/field_text.hpp"
#include "harness/evaluate/simulated_row.hpp"
#include "harness/program/passes/lower.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

std::optional<ReplayOptions> replay_options(Arguments const& arguments) {
  std::string const source = arguments.has("source") ? arguments.option("source") : "measured";
  if (source != "measured" && source != "replayed")
    throw InputError(fmt::format("--source: {} is not measured or replayed", in_quotes(source)));
  if (source == "measured") {
    for (char const* const flag : {"system", "stack"})
      if (arguments.has(flag))
        throw InputError(
            fmt::format("--{}: {} given; only with --source replayed, a measurement takes the machine it is on", flag,
                        in_quotes(arguments.option(flag))));
    return std::nullopt;
  }
  if (!arguments.has("system"))
    throw InputError(
        "--source replayed: --system is missing, it tells the communication; `shardbench systems` lists them");
  ReplayOptions options{arguments.option("system")};
  if (arguments.has("stack")) options.stack = arguments.option("stack");
  return options;
}

PointResult replay_point(Job& job, Experiment const& e, ReplayOptions const& options) {
  CostModel const model(load_system(options.system), load_stack(options.stack));
  job.use(e);
  ReplayedDurations durations(model);
  std::vector<StepProgram> programs;
  for (std::int64_t const rank : representative_ranks(e)) {
    programs.push_back(lower(e, rank));
    durations.measure_stage(programs.back(), e, job.device());
  }
  Prediction const prediction = play_step(std::move(programs), model, durations);
  PointResult out;
  StepTotals const totals = total_step(e);
  out.row = start_row(e, Source::replayed);
  out.row.command += fmt::format(" {}", fmt::join(options.words(), " "));
  set_place(out.row, job);
  set_totals(out.row, totals);
  set_prediction(out.row, prediction, memory_fit(prediction.programs, model.system(), model.stack()), model, totals);
  // The compute ran here; only the network is the system's.
  out.row.device = job.device().info().name;
  out.row.attention_kernel = job.device().kernels().attention_kernel;
  out.row.predicted_step_ms = std::nullopt;
  out.ops = predicted_ops_rows(out.row.run_id, prediction);
  return out;
}

}  // namespace shardbench
