#include "harness/report/report_row.hpp"

#include <utility>

#include "kernels/core/error.hpp"
#include "kernels/core/index.hpp"

namespace shardbench {

std::string_view to_string(Source source) {
  return EnumNames<Source>{"counted", "simulated", "planned", "replayed", "measured", "external"}[source];
}

std::string_view to_string(Outcome outcome) {
  return EnumNames<Outcome>{"passed", "incorrect", "failed", "timeout", "skipped"}[outcome];
}

std::optional<double> const& PerAxis::operator[](Lane axis) const {
  VALIDATE(axis != Lane::compute, "only communication axes have per-axis columns");
  constexpr EnumArray<Lane, std::optional<double> PerAxis::*> members{
      {nullptr, &PerAxis::tp, &PerAxis::cp, &PerAxis::dp, &PerAxis::pp, &PerAxis::ep}};
  return this->*members[axis];
}

std::optional<double>& PerAxis::operator[](Lane axis) {
  return const_cast<std::optional<double>&>(std::as_const(*this)[axis]);
}

void set_step_times(ReportRow& row, Summary const& steps_ms) {
  row.step_ms_p50 = steps_ms.median;
  row.step_ms_min = steps_ms.min;
  row.iterations = steps_ms.samples;
  // One sample says nothing of how samples scatter (case T03).
  row.step_ms_p95 = steps_ms.samples > 1 ? std::optional(steps_ms.p95) : std::nullopt;
  row.step_cv_pct = steps_ms.samples > 1 ? std::optional(steps_ms.cv_pct) : std::nullopt;
}

void set_breakdown(ReportRow& row, Breakdown const& breakdown) {
  row.instrumented_step_ms = breakdown.step_ms;
  row.compute_ms = breakdown.compute_ms;
  row.exposed_comm_ms = breakdown.exposed_comm_ms;
  row.idle_ms = breakdown.idle_ms;
  row.bubble_ms = breakdown.bubble_ms;
  row.comm_ms = breakdown.comm_ms;
  Cut const& cut = row.experiment.cut;
  for (auto const& [lane, axis] : {std::pair{Lane::tp, Axis::tp},
                                   {Lane::cp, Axis::cp},
                                   {Lane::dp, Axis::dp},
                                   {Lane::pp, Axis::pp},
                                   {Lane::ep, Axis::ep}}) {
    auto const i = static_cast<int>(lane);
    if (cut.degree(axis) <= 1 && breakdown.comm_axis_ms[i] == 0) continue;
    row.comm_axis_ms[lane] = breakdown.comm_axis_ms[i];
    row.exposed_axis_ms[lane] = breakdown.exposed_axis_ms[i];
  }
}

void set_fingerprint(ReportRow& row, Fingerprint const& fingerprint, std::int64_t ranks_here) {
  row.host = fingerprint.host;
  row.clock_mhz = fingerprint.clock_mhz;
  row.versions = fingerprint.versions();
  row.git_commit = fingerprint.git_commit;
  row.time_utc = fingerprint.time_utc;
  if (fingerprint.cores > 0) row.ranks_per_core = static_cast<double>(ranks_here) / fingerprint.cores;
  if (row.device.empty()) row.device = fingerprint.cpu_model;
  if (row.comm_options.empty()) row.comm_options = fingerprint.variables_text();
}

void set_prediction(ReportRow& row, double predicted_step_ms) {
  row.predicted_step_ms = predicted_step_ms;
  if (row.step_ms_p50 && *row.step_ms_p50 > 0)
    row.prediction_error_pct = 100 * (predicted_step_ms - *row.step_ms_p50) / *row.step_ms_p50;
}

}  // namespace shardbench
