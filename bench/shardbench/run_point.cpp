#include "bench/shardbench/run_point.hpp"

#include <fmt/format.h>

#include "bench/shardbench/ops_report.hpp"
#include "bench/shardbench/outputs.hpp"
#include "bench/shardbench/row_builder.hpp"
#include "bench/shardbench/text.hpp"
#include "bench/shardbench/trace_file.hpp"
#include "harness/comm/launch_env.hpp"
#include "harness/program/lower.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

double arena_bytes(StepProgram const& program) {
  return static_cast<double>(plan_memory(program, Replay(program)).arena_bytes);
}

/// Memory is lent before it is there, so room is judged before anything is allocated.
void check_room(Job& job, Experiment const& e, StepProgram const& program) {
  double mine = arena_bytes(program);
  if (e.check && job.first()) mine += arena_bytes(lower(unsharded(e), 0));
  double const ranks_here = std::min(local_size(), job.world().size());
  double const needed = job.sum(mine) / job.world().size() * ranks_here;
  double const free = job.sum(job.device().info().free_memory_bytes) / job.world().size();
  if (needed > free)
    throw OutOfMemory(fmt::format("memory: {:.0f} ranks of a machine need {}{}, {} are free", ranks_here,
                                  bytes_text(needed), e.check ? " with the unsharded step" : "", bytes_text(free)),
                      needed, free);
}

/// The rank's program; a refusal of any rank is thrown by all.
StepProgram agreed_program(Job& job, Experiment const& e) {
  StepProgram program;
  std::string problem;
  try {
    program = lower(e, job.world().rank());
    problem = not_executable(program);
  } catch (IllegalConfig const& refusal) {
    problem = refusal.what();
  }
  problem = job.agree(problem);
  if (!problem.empty()) throw IllegalConfig(problem);
  return program;
}

}  // namespace

PointResult run_point(Job& job, Experiment const& e, bool trace) {
  PointResult result;
  job.use(e.device);
  StepProgram program = agreed_program(job, e);
  check_room(job, e, program);
  Runner runner(std::move(program), job.device(), job.device_world(),
                {.verify_collectives = e.verify_collectives, .optimizer = {}});
  Measurement const m = measure(runner, e, job.device(), job.world());
  result.row = start_row(e, Source::measured);
  set_place(result.row, job);
  StepTotals const totals = total_step(e);
  set_totals(result.row, totals);
  set_measurement(result.row, m, totals);
  result.ops = ops_rows(job, result.row.run_id, runner.program(), m);
  if (trace) result.trace_events = trace_events(job.world().rank(), runner.program(), m.spans);
  return result;
}

}  // namespace shardbench
