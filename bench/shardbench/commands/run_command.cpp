#include <fmt/format.h>

#include "bench/shardbench/cli/commands.hpp"
#include "bench/shardbench/cli/experiment_of.hpp"
#include "bench/shardbench/cli/outputs.hpp"
#include "bench/shardbench/cli/report_page.hpp"
#include "bench/shardbench/cli/trace_file.hpp"
#include "bench/shardbench/jobs/child_job.hpp"
#include "bench/shardbench/jobs/launcher.hpp"
#include "bench/shardbench/jobs/replay_point.hpp"
#include "bench/shardbench/jobs/run_limit.hpp"
#include "bench/shardbench/jobs/run_point.hpp"
#include "harness/comm/launch_env.hpp"
#include "harness/evaluate/step_totals.hpp"
#include "harness/exec/dump.hpp"
#include "harness/exec/given_values.hpp"
#include "harness/report/columns.hpp"
#include "harness/report/text.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

void print_times(ReportRow const& r) {
  if (r.step_ms_p95)
    fmt::print("step      p50 {:.3f} ms, p95 {:.3f} ms, least {:.3f} ms ({} iterations, variation {:.1f}%)\n",
               *r.step_ms_p50, *r.step_ms_p95, *r.step_ms_min, *r.iterations, *r.step_cv_pct);
  else
    fmt::print("step      {:.3f} ms (1 iteration: its scatter is unknown)\n", *r.step_ms_p50);
  if (r.tokens_per_s)
    fmt::print("rate      {}, {:.4g} model TFLOP/s a rank ({}); MFU {}\n", rate_text(r), *r.model_tflops_per_rank,
               r.flops_convention,
               r.mfu_pct ? fmt::format("{:.1f}%", *r.mfu_pct) : "not given, the device's peak is unknown");
  fmt::print(
      "breakdown compute {:.3f} + exposed communication {:.3f} + idle {:.3f} (bubble {:.3f}) = {:.3f} ms, "
      "instrumented, mean over ranks\n",
      *r.compute_ms, *r.exposed_comm_ms, *r.idle_ms, *r.bubble_ms, *r.instrumented_step_ms);
}

void print_axes(ReportRow const& row) {
  for (Lane const lane : {Lane::tp, Lane::dp, Lane::pp, Lane::cp, Lane::ep}) {
    if (!row.comm_axis_ms[lane]) continue;
    fmt::print("  {:<8}communication {:.3f} ms, exposed {:.3f} ms", to_string(lane), *row.comm_axis_ms[lane],
               row.exposed_axis_ms[lane].value_or(0));
    if (row.payload_bytes[lane]) fmt::print("; payload {} a rank", bytes_text(*row.payload_bytes[lane]));
    fmt::print("\n");
  }
}

void print_step(Experiment const& e) {
  fmt::print("{}: {} layers, seq {}, {}, {} microbatches, {}\n", e.model_name, e.model.layers, e.seq, ranks_text(e.cut),
             e.microbatches(), to_string(e.precision));
}

void print_end(ReportRow const& r) {
  if (!r.reason.empty()) fmt::print("note      {}\n", r.reason);
  fmt::print("again     {}\n", r.command);
}

void print_result(ReportRow const& r) {
  print_step(r.experiment);
  fmt::print("on        {}{}, {}\n", r.device,
             r.ranks_per_core ? fmt::format(" ({:g} ranks a core)", *r.ranks_per_core) : "", r.versions);
  print_times(r);
  print_axes(r);
  fmt::print("memory    {} a rank at most (parameters {}, gradients {}, optimizer {}, activations {}); taken {}\n",
             bytes_text(*r.memory_peak_bytes), bytes_text(*r.parameter_bytes), bytes_text(*r.gradient_bytes),
             bytes_text(*r.optimizer_bytes), bytes_text(*r.activation_bytes), bytes_text(*r.memory_measured_bytes));
  if (r.loss || r.grad_norm)
    fmt::print("values    {}{}of the first step\n", r.loss ? fmt::format("loss {:.7g}, ", *r.loss) : "",
               r.grad_norm ? fmt::format("gradient norm {:.7g} ", *r.grad_norm) : "");
  if (r.max_rel_error)
    fmt::print("check     {}: max_rel_error {:.3g} against the unsharded step\n", to_string(r.outcome),
               *r.max_rel_error);
  print_end(r);
}

void print_replay(ReportRow const& r) {
  print_step(r.experiment);
  fmt::print("replayed  compute of one rank a stage measured on {}, communication of {} told\n", r.device, r.system);
  fmt::print("step      {:.3f} ms: compute {:.3f} + exposed communication {:.3f} + idle {:.3f} (bubble {:.3f})\n",
             *r.step_ms_p50, *r.compute_ms, *r.exposed_comm_ms, *r.idle_ms, *r.bubble_ms);
  print_axes(r);
  print_end(r);
}

int exit_code(PointResult const& result) { return result.row.outcome == Outcome::passed ? 0 : 1; }

/// Into the files, and to standard output as JSON or by `print`.
void tell(Arguments const& arguments, PointResult const& result, void (*print)(ReportRow const&)) {
  append_result(arguments.option("out"), result.row, result.ops);
  if (arguments.has("json"))
    fmt::print("{}\n", to_json(std::span(&result.row, 1)));
  else
    print(result.row);
  std::fflush(stdout);
}

/// What rank 0 leaves behind. Collective only for the timeline.
int report(Job& job, Arguments const& arguments, PointResult const& result) {
  std::string const trace = arguments.option("trace");
  if (!trace.empty()) {
    std::vector<std::string> const events = job.gather(result.trace_events);
    if (job.first()) write_trace(trace, events);
  }
  ReportFacts facts;
  facts.run_id = result.row.run_id, facts.step_ms = result.row.instrumented_step_ms.value_or(0);
  if (arguments.has("report")) facts.stages = job.gather(result.stage_fact);
  if (job.first()) {
    tell(arguments, result, print_result);
    ReportPage(arguments).write({result.row}, result.ops, facts);
  }
  return exit_code(result);
}

/// The first rank says so before any other ends: a launcher that sees one rank end ends the others.
int refused_by_all(Job& job, std::string const& problem) {
  if (job.first()) fmt::print(stderr, "shardbench: {}\n", one_line(problem)), std::fflush(stderr);
  job.world().barrier();
  return 2;
}

int run_here(Arguments const& arguments, Experiment const& e) {
  RunLimit const limit(arguments);
  Job job(job_options(arguments));
  if (job.world().size() != e.ranks)
    throw InputError(fmt::format("--ranks: the cut needs {} ranks (dp*tp*pp*cp), the launcher started {}", e.ranks,
                                 job.world().size()));
  if (job.first()) print_warnings(e);
  try {
    return report(job, arguments,
                  run_point(job, e, arguments.has("trace") || arguments.has("report"), arguments.option("dump")));
  } catch (InputError const& error) {  // alike on all ranks, as an illegal cut is
    return refused_by_all(job, error.what());
  } catch (OutOfMemory const& error) {
    return refused_by_all(job, error.what());
  } catch (std::exception const& error) {
    fmt::print(stderr, "shardbench: rank {}: {}\n", job.world().rank(), one_line(error.what()));
    if (job.world().size() > 1) MpiProcess::abort(1);
    return 1;
  }
}

/// One process stands for all ranks: what it runs itself is compute, and no launcher is needed.
int replay_here(Arguments const& arguments, Experiment const& e, ReplayOptions const& options) {
  for (std::string_view const flag : {"trace", "dump"})
    if (arguments.has(flag))
      throw InputError(fmt::format("--{}: not with --source replayed, whose ranks never ran together", flag));
  RunLimit const limit(arguments);
  refuse_flags_of_runs(e);
  Job job;
  if (job.world().size() != 1)
    throw InputError(
        fmt::format("--source replayed: runs as one process, the launcher started {}", job.world().size()));
  print_warnings(e);
  try {
    PointResult const result = replay_point(job, e, options);
    tell(arguments, result, print_replay);
    ReportPage(arguments).write({result.row}, result.ops, {});
    return exit_code(result);
  } catch (OutOfMemory const& error) {
    throw InputError(error.what());
  }
}

/// What would be refused after the ranks have started is refused before.
void check_given(Arguments const& arguments, Experiment const& e) {
  if (arguments.has("dump"))
    if (std::string const problem = dump_problem(e); !problem.empty())
      throw InputError(fmt::format("--dump: {} given with {}", arguments.option("dump"), problem));
  if (!launched_as_job() || speaks_for_job()) given_values(e);
}

}  // namespace

int run_command(Arguments const& arguments) {
  Experiment const e = resolved_experiment(arguments);
  check_device(e);
  check_given(arguments, e);
  if (std::optional<ReplayOptions> const replay = replay_options(arguments)) {
    if (!launched_as_job()) check_mpirun_arguments(arguments.mpirun_arguments, 1);
    check_outputs(arguments.option("out"));
    return replay_here(arguments, e, *replay);
  }
  bool const launched = launched_as_job();
  if (!launched) check_mpirun_arguments(arguments.mpirun_arguments, e.ranks);
  if (!launched || speaks_for_job()) {
    check_outputs(arguments.option("out"));
    static_cast<void>(ReportPage(arguments));
    if (arguments.has("trace")) check_text_file("trace", arguments.option("trace"), arguments.option("out"));
  }
  if (launched || e.ranks == 1) return run_here(arguments, e);
  check_programs(e);
  become(launch_of(e.ranks, arguments.mpirun_arguments, arguments.words));
}

}  // namespace shardbench
