#include "harness/report/report_row.hpp"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "harness/report/cell_text.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

std::string cell_text::text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  bool const whole = std::trunc(value) == value && std::abs(value) < 0x1p53;
  return whole ? fmt::format("{}", static_cast<std::int64_t>(value)) : fmt::format("{}", value);
}

std::string_view to_string(Source source) {
  constexpr std::string_view names[] = {"counted", "simulated", "planned", "replayed", "measured", "external"};
  static_assert(std::size(names) == static_cast<std::size_t>(Source::size_));
  VALIDATE(source < Source::size_, "no such source");
  return names[static_cast<std::size_t>(source)];
}

std::string_view to_string(Outcome outcome) {
  constexpr std::string_view names[] = {"passed", "incorrect", "failed", "timeout", "skipped"};
  static_assert(std::size(names) == static_cast<std::size_t>(Outcome::size_));
  VALIDATE(outcome < Outcome::size_, "no such outcome");
  return names[static_cast<std::size_t>(outcome)];
}

std::optional<double>& PerAxis::operator[](Lane axis) {
  switch (axis) {
    case Lane::tp:
      return tp;
    case Lane::cp:
      return cp;
    case Lane::dp:
      return dp;
    case Lane::pp:
      return pp;
    case Lane::ep:
      return ep;
    case Lane::compute:
    case Lane::size_:
      break;
  }
  throw_error(__FILE__, __LINE__, "only communication axes have per-axis columns");
}

void set_step_times(ReportRow& row, Summary const& steps_ms) {
  row.step_ms_p50 = steps_ms.median;
  row.step_ms_p95 = steps_ms.p95;
  row.step_ms_min = steps_ms.min;
  row.step_cv_pct = steps_ms.cv_pct;
  row.iterations = steps_ms.samples;
}

void set_breakdown(ReportRow& row, Breakdown const& breakdown) {
  row.instrumented_step_ms = breakdown.step_ms;
  row.compute_ms = breakdown.compute_ms;
  row.exposed_comm_ms = breakdown.exposed_comm_ms;
  row.idle_ms = breakdown.idle_ms;
  row.bubble_ms = breakdown.bubble_ms;
  row.comm_ms = breakdown.comm_ms;
  Cut const& cut = row.experiment.cut;
  struct Axis {
    Lane lane;
    std::int64_t ranks;
  };
  for (auto const [lane, ranks] : {Axis{Lane::tp, cut.tp}, Axis{Lane::cp, cut.cp}, Axis{Lane::dp, cut.dp},
                                   Axis{Lane::pp, cut.pp}, Axis{Lane::ep, cut.ep}}) {
    auto const i = static_cast<std::size_t>(lane);
    if (ranks <= 1 && breakdown.comm_axis_ms[i] == 0) continue;
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
