#include "bench/shardbench/commands/calibrate_machine.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "bench/shardbench/cli/outputs.hpp"
#include "bench/shardbench/jobs/child_job.hpp"
#include "bench/shardbench/jobs/job.hpp"
#include "bench/shardbench/jobs/launcher.hpp"
#include "bench/shardbench/jobs/run_limit.hpp"
#include "harness/calibrate/profile_text.hpp"
#include "harness/comm/launch_env.hpp"
#include "harness/config/field_text.hpp"
#include "harness/report/text.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

/// The fields that calibrate takes, without a model around them.
Experiment fields_of(Arguments const& arguments) {
  Experiment e;
  for (auto const& [flag, text] : arguments.fields) set_field(e, flag, text);
  return e;
}

std::string profile_name(std::string const& path) {
  std::size_t const slash = path.find_last_of('/');
  std::string name = path.substr(slash == path.npos ? 0 : slash + 1);
  return name.ends_with(".yaml") ? name.substr(0, name.size() - 5) : name;
}

/// Everything once.
MachineMeasurement measure_round(Job& job, RankAgreement& agree, CalibrationOptions const& options, bool first_round) {
  MachineMeasurement m;
  auto const say = [&](std::string_view what) {
    if (job.first() && first_round) fmt::print("measuring {}\n", what), std::fflush(stdout);
  };
  say("products and copies");
  measure_device(job.device(), agree, options, m);
  say("whole layers");
  measure_kernels(job.device(), agree, options, m);
  if (job.world().size() > 1) say("collectives");
  measure_network(job.device(), job.device_world(), agree, options, m);
  if (job.world().size() > 1) say("whole steps");
  measure_steps(job.device(), job.device_world(), agree, options, m);
  return m;
}

/// A machine's pace changes over seconds, for a virtual one by a factor of two. So everything is measured in short
/// rounds, and medians taken over them, as many as there is time for.
MachineMeasurement measure_machine(Job& job, Dtype precision) {
  constexpr std::size_t most_rounds = 6;
  constexpr double enough_s = 170, seconds_per_later_curve = 1;
  RankAgreement agree(job.world());
  CalibrationOptions options;
  options.precision = precision;
  options.ranks_per_host = std::min(local_size(), job.world().size());
  std::vector<MachineMeasurement> rounds;
  auto const start = std::chrono::steady_clock::now();
  for (double spent_s = 0, longest_s = 0; rounds.size() < most_rounds;) {
    rounds.push_back(measure_round(job, agree, options, rounds.empty()));
    // Large messages, which take long, are measured once: their times change less.
    options.seconds_per_curve = seconds_per_later_curve;
    std::chrono::duration<double> const now = std::chrono::steady_clock::now() - start;
    double const before_s = std::exchange(spent_s, agree.maximum(now.count()));
    longest_s = std::max(longest_s, spent_s - before_s);
    if (job.first()) fmt::print("round {}: {:.0f} s\n", rounds.size(), spent_s), std::fflush(stdout);
    if (spent_s + longest_s > enough_s) break;
  }
  MachineMeasurement m = median_of(rounds);
  if (job.world().size() > 1) set_excess(m);
  return m;
}

void print_profile(CalibratedProfile const& c, MachineMeasurement const& m, double seconds) {
  DeviceProfile const& d = c.profile.device;
  fmt::print("device    {}: best product {:.4g} TFLOP/s, copies {:.4g} GB/s, {:.3g} us to launch\n", d.name,
             d.peak_tflops.begin()->second, d.memory_gb_per_s, d.launch_us);
  fmt::print("products  {} shapes; formula off by {:.1f}% (median of those fitted), {:.1f}% of those held out\n",
             m.gemm.size(), 100 * c.gemm_error_fit, 100 * c.gemm_error_held_out);
  fmt::print("kernels   {} kinds of operation measured in whole layers\n", d.kernels.size());
  for (MeasuredLevel const& level : m.levels)
    for (MeasuredCurve const& curve : level.curves) {
      if (curve.points.empty()) continue;
      NcclPoint const &first = curve.points.front(), &last = curve.points.back();
      fmt::print("{:<14}{:<16}{} ranks: {} in {:.4g} us, {} in {:.4g} us ({:.4g} GB/s)\n", level.name,
                 to_string(curve.kind), curve.ranks, bytes_text(first.bytes), first.time_us, bytes_text(last.bytes),
                 last.time_us, last.bytes / last.time_us / 1e3);
    }
  for (MeasuredStep const& step : m.steps)
    fmt::print("step      {}, seq {}, {} {}: {:.4g} ms in the rounds, by its parts {:.4g} ms\n",
               step.experiment.model_name, step.experiment.seq, step.axis, m.ranks, fmt::join(step.ms, ", "),
               step.told_ms);
  if (m.ranks > 1)
    fmt::print(
        "together  {}; compute takes more than its parts by {:.1f}% in steps cut by tp, {:.1f}% by dp, {:.1f}% by pp\n",
        overlap_text(m.overlap_slowdown), 100 * m.excess.tp, 100 * m.excess.dp, 100 * m.excess.pp);
  fmt::print("took      {:.0f} s\n", seconds);
}

int calibrate_here(Arguments const& arguments, Experiment const& e, Dtype precision) {
  auto const start = std::chrono::steady_clock::now();
  Job job(job_options(arguments));
  if (e.ranks > 0 && job.world().size() != e.ranks)
    throw InputError(fmt::format("--ranks: {} asked for, the launcher started {}", e.ranks, job.world().size()));
  job.use(e);
  MachineMeasurement const m = measure_machine(job, precision);
  if (!job.first()) return 0;
  std::string const path = arguments.option("out");
  CalibratedProfile const c = make_profile(m, profile_name(path));
  std::string const yaml = profile_yaml(c.profile);
  static_cast<void>(parse_system_profile(yaml, path));
  write_text_file(path, yaml);
  std::chrono::duration<double> const took = std::chrono::steady_clock::now() - start;
  print_profile(c, m, took.count());
  return 0;
}

}  // namespace

int calibrate_machine(Arguments const& arguments) {
  Experiment const e = fields_of(arguments);
  check_device(e);
  if (e.precision == Dtype::fp8) throw InputError("--precision: 'fp8' is not one of fp32|bf16, which products run in");
  if (!arguments.option("out").ends_with(".yaml"))
    throw InputError(
        fmt::format("--out: {} does not end in .yaml, as a system profile does", in_quotes(arguments.option("out"))));
  if (!launched_as_job()) check_mpirun_arguments(arguments.mpirun_arguments, e.ranks);
  if (launched_as_job() || e.ranks <= 1) {
    if (speaks_for_job()) check_text_file("out", arguments.option("out"));
    return calibrate_here(arguments, e, e.precision);
  }
  check_text_file("out", arguments.option("out"));
  become(launch_of(e.ranks, arguments.mpirun_arguments, arguments.words));
}

}  // namespace shardbench
