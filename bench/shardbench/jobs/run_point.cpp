#include "bench/shardbench/jobs/run_point.hpp"

#include <fmt/format.h>

#include "bench/shardbench/cli/outputs.hpp"
#include "bench/shardbench/cli/report_facts.hpp"
#include "bench/shardbench/cli/trace_file.hpp"
#include "bench/shardbench/jobs/ops_report.hpp"
#include "bench/shardbench/jobs/row_builder.hpp"
#include "harness/exec/device_memory.hpp"
#include "harness/exec/dump.hpp"
#include "harness/report/text.hpp"
#include "kernels/core/arena.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

/// What a rank's step takes of its device.
double room_of(LoweredStage const& stage, Device& device) {
  return static_cast<double>(stage.memory().arena_bytes) + bytes_beside_arena(stage.program(), device);
}

std::string dominant(LoweredStage const& stage) {
  constexpr std::size_t named = 3;
  std::string text;
  for (auto const& [name, bytes] : largest_tensors(stage.program(), stage.memory(), named))
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, bytes_text(static_cast<double>(bytes)));
  return text;
}

/// An arena of this size can be had of a GPU. Every rank asks for its own before any of them goes on.
std::string arena_problem(Job& job, std::int64_t bytes) {
  try {
    if (!job.on_host()) Arena(job.device(), bytes);
  } catch (OutOfMemory const& error) {
    return error.what();
  }
  return {};
}

/// A CPU's memory is lent before it is there, and a rank that finds no room in the middle leaves the others waiting: so
/// room is judged before, and what one rank lacks is thrown by all.
void check_room(Job& job, Experiment const& e, LoweredStage const& stage, std::optional<LoweredStage> const& whole) {
  DeviceInfo const device = job.device().info();
  double mine = room_of(stage, job.device());
  if (whole && job.first()) mine += room_of(*whole, job.device());
  int const sharers = job.ranks_on_device();
  // Ranks of a CPU share its memory whatever each needs; a GPU has to hold its own.
  double const needed = (job.on_host() ? job.sum(mine) / job.world().size() : mine) * sharers;
  std::string problem;
  if (needed > device.free_memory_bytes)
    problem = fmt::format("memory: {} {}{}, {} are free on {}",
                          sharers == 1 ? "a rank needs" : fmt::format("{} ranks need", sharers), bytes_text(needed),
                          e.check ? " with the unsharded step" : "", bytes_text(device.free_memory_bytes), device.name);
  else
    problem = arena_problem(job, stage.memory().arena_bytes);
  if (!problem.empty()) problem += fmt::format("; largest: {}", dominant(stage));
  problem = job.agree(problem);
  if (!problem.empty()) throw OutOfMemory(problem, needed, device.free_memory_bytes);
}

/// A step, what this rank does of it, and the unsharded one that it is compared with.
struct RankStep {
  LoweredStep step;
  std::optional<LoweredStage> mine, whole;
};

/// A refusal of any rank is thrown by all.
RankStep agreed_step(Job& job, Experiment const& e) {
  RankStep lowered;
  std::string problem;
  try {
    lowered.step = lower_step(e);
    lowered.mine = lowered.step.of_rank(job.world().rank());
    if (e.check) lowered.whole = lower_unsharded(e);
  } catch (IllegalConfig const& refusal) {
    problem = refusal.what();
  }
  problem = job.agree(problem);
  if (!problem.empty()) throw IllegalConfig(problem);
  return lowered;
}

void check_graph(Job& job, Experiment const& e, Runner const& runner) {
  std::string const problem = job.agree(e.cuda_graph ? runner.graph_problem() : std::string());
  if (!problem.empty()) throw IllegalConfig(fmt::format("cuda-graph: {}", problem));
}

}  // namespace

void check_programs(Experiment const& e) {
  lower_step(e);
  if (e.check) lower_unsharded(e);
}

namespace {

/// A file that one rank cannot read is refused by all.
std::shared_ptr<GivenValues> agreed_values(Job& job, Experiment const& e) {
  std::shared_ptr<GivenValues> values;
  std::string problem;
  try {
    values = given_values(e);
  } catch (InputError const& refusal) {
    problem = refusal.what();
  }
  problem = job.agree(problem);
  if (!problem.empty()) throw InputError(problem);
  return values;
}

}  // namespace

PointResult run_point(Job& job, Experiment const& e, bool trace, std::string const& dump) {
  PointResult result;
  job.use(e);
  RankStep const lowered = agreed_step(job, e);
  check_room(job, e, *lowered.mine, lowered.whole);
  double const free_before = job.device().info().free_memory_bytes;
  Runner runner(*lowered.mine, job.device(), job.device_world(),
                {.verify_collectives = e.verify_collectives, .optimizer = {}, .given = agreed_values(job, e)});
  check_graph(job, e, runner);
  if (!dump.empty()) dump_step(runner, e, job.world(), lower_unsharded(e).program(), dump);
  Measurement m = measure(runner, e, job.device(), job.world(), lowered.whole);
  // Of a GPU all can be asked: arena, workspaces and the buffers of its communicators.
  if (!job.on_host() && job.ranks_on_device() == 1)
    m.memory_bytes = job.maximum(free_before - job.device().info().free_memory_bytes);
  result.row = start_row(e, Source::measured);
  set_place(result.row, job);
  StepTotals const totals = total_step(lowered.step);
  set_totals(result.row, totals);
  if (!job.on_host() && result.row.memory_peak_bytes)
    *result.row.memory_peak_bytes += job.maximum(bytes_beside_arena(runner.program(), job.device()));
  set_measurement(result.row, m, totals);
  result.ops = ops_rows(job, result.row.run_id, runner.program(), m);
  if (!trace) return result;
  result.trace_events = trace_events(job.world().rank(), runner.program(), m.spans);
  result.stage_fact =
      stage_fact(job.world().rank(), runner.program(), runner.stage().replay(), m.spans, m.breakdown.step_ms);
  return result;
}

}  // namespace shardbench
