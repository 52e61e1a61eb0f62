#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "harness/config/experiment.hpp"
#include "harness/record/fingerprint.hpp"
#include "harness/record/statistics.hpp"
#include "harness/record/timeline.hpp"

namespace shardbench {

/// Where a row's times come from (design: Prediction).
enum class Source : std::uint8_t { counted, simulated, planned, replayed, measured, external, size_ };
std::string_view to_string(Source source);

/// How a configuration ended. `incorrect`, `failed` and `timeout` make the exit code 1.
enum class Outcome : std::uint8_t { passed, incorrect, failed, timeout, skipped, size_ };
std::string_view to_string(Outcome outcome);

/// One value per mesh axis; empty where the axis has one rank or nothing was measured.
struct PerAxis {
  std::optional<double> tp, dp, pp, cp, ep;
  /// The value of a communication lane. Throws Error for Lane::compute.
  std::optional<double>& operator[](Lane axis);
  std::optional<double> const& operator[](Lane axis) const;
};

/// One row of the report. Empty = not measured, never 0. Columns, units and formulas: report_columns().
struct ReportRow {
  std::string run_id;
  Source source = Source::measured;
  Outcome outcome = Outcome::passed;
  std::string reason;   ///< why it did not pass, one line; or a remark on a passed row
  std::string command;  ///< reproduces the row

  Experiment experiment;                   ///< the columns of model and cut
  std::string rank_order = "tp,cp,dp,pp";  ///< axes, fastest first
  std::string attention_kernel;

  std::string device;
  std::optional<std::int64_t> device_count;
  std::optional<double> ranks_per_core;
  std::string comm_backend, comm_options, system, software_stack, host;
  std::optional<double> clock_mhz, power_w;
  std::optional<bool> throttled;
  std::string versions, git_commit, time_utc;

  std::optional<double> step_ms_p50, step_ms_p95, step_ms_min, step_cv_pct;
  std::optional<std::int64_t> iterations;
  std::optional<double> instrumented_step_ms, compute_ms, exposed_comm_ms, idle_ms, bubble_ms, comm_ms;
  PerAxis comm_axis_ms, exposed_axis_ms;
  std::optional<double> ttft_ms, tpot_ms, optimizer_ms;

  std::optional<double> tokens_per_s, tokens_per_s_per_rank, samples_per_s;
  std::optional<double> model_tflops_per_rank, hardware_tflops_per_rank, mfu_pct, hfu_pct, peak_tflops;
  std::string peak_source, flops_convention;

  std::optional<double> parameter_bytes, gradient_bytes, optimizer_bytes, activation_bytes;
  std::optional<double> memory_peak_bytes, memory_measured_bytes;
  std::optional<double> buffer_bytes, temporary_bytes, reserved_bytes, memory_capacity_bytes;
  PerAxis payload_bytes, wire_bytes;

  std::optional<double> loss, grad_norm;  ///< of the first step, from the initial weights
  std::optional<double> max_rel_error, predicted_step_ms, prediction_error_pct;
  std::optional<double> error_band_pct;  ///< how far off such predictions were (evaluate/error_band.hpp)

  std::optional<double> training_days, device_hours, cost_usd, goodput_pct;  ///< of a whole run with failures
  std::optional<bool> pareto;                                                ///< nothing planned beats it in everything
  std::string run_command, megatron_flags, torchtitan_flags;                 ///< the same cut elsewhere
};

/// step_ms_*, step_cv_pct and iterations, from the summary of the step times in ms.
void set_step_times(ReportRow& row, Summary const& steps_ms);

/// compute_ms ... and the per-axis columns of axes with more than one rank, from a breakdown (means over ranks);
/// instrumented_step_ms is its step.
void set_breakdown(ReportRow& row, Breakdown const& breakdown);

/// host, clock_mhz, versions, git_commit, time_utc, ranks_per_core; device and comm_options where still empty.
/// `ranks_here`: ranks sharing this machine's cores.
void set_fingerprint(ReportRow& row, Fingerprint const& fingerprint, std::int64_t ranks_here);

/// prediction_error_pct = 100 * (predicted - measured) / measured, where both are there.
void set_prediction(ReportRow& row, double predicted_step_ms);

/// A row of `*_ops.csv`: one op label of one configuration, over a step of one rank.
struct OpsRow {
  std::string run_id;  ///< of the summary row it belongs to
  std::string label, kind, phase, axis;
  std::optional<std::int64_t> count;
  std::optional<double> bytes, flops, p50_us, total_ms, tflops, algbw_gb_per_s, busbw_gb_per_s;
  std::optional<double> predicted_us, prediction_error_pct;
};

}  // namespace shardbench
