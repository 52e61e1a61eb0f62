#include "bench/shardbench/row_builder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/shardbench/bus_rate.hpp"
#include "harness/comm/launch_env.hpp"
#include "kernels/gemm/blas_host.hpp"
#include "kernels/kernel_set.hpp"

namespace shardbench {
namespace {

void set_rates(ReportRow& row, StepTotals const& totals) {
  Experiment const& e = row.experiment;
  double const seconds = 1e-3 * *row.step_ms_p50;
  if (seconds <= 0) return;
  double const samples = static_cast<double>(e.global_batch);
  row.samples_per_s = samples / seconds;
  row.tokens_per_s = samples * static_cast<double>(e.seq) / seconds;
  row.tokens_per_s_per_rank = *row.tokens_per_s / static_cast<double>(e.ranks);
  row.model_tflops_per_rank = totals.model_flops / seconds / 1e12;
  row.hardware_tflops_per_rank = totals.hardware_flops / seconds / 1e12;
}

void set_verdict(ReportRow& row, Measurement const& m) {
  ParallelConfig const& cut = row.experiment.parallel;
  std::int64_t const kv_heads = row.experiment.model.kv_heads;
  if (cut.tp > kv_heads && kv_heads > 0)
    row.reason =
        fmt::format("each of the {} kv heads is held by {} tensor-parallel ranks", kv_heads, cut.tp / kv_heads);
  if (!m.parity) return;
  row.max_rel_error = m.parity->max_rel_error;
  if (m.parity->passed()) return;
  row.outcome = Outcome::incorrect;
  row.reason = m.parity->problem.empty() ? fmt::format("max_rel_error {:.3g} is above {:.3g}, worst at {}",
                                                       m.parity->max_rel_error, m.parity->tolerance, m.parity->worst)
                                         : m.parity->problem;
}

/// Ranks of the group that a label's communication runs in; 0 for compute.
std::int64_t group_size(StepProgram const& program, std::size_t label) {
  for (Segment const& segment : program.segments)
    for (Op const& op : segment.ops)
      if (op.group >= 0 && op.label >= 0 && static_cast<std::size_t>(op.label) == label)
        return static_cast<std::int64_t>(program.groups[static_cast<std::size_t>(op.group)].members.size());
  return 0;
}

void set_op_rates(OpsRow& row, OpKind kind, std::int64_t ranks) {
  double const seconds = 1e-6 * *row.p50_us;
  if (seconds <= 0) return;
  if (row.axis == "compute") {
    if (*row.flops > 0) row.tflops = *row.flops / seconds / 1e12;
    return;
  }
  row.algbw_gb_per_s = *row.bytes / seconds / 1e9;
  row.busbw_gb_per_s = bus_rate(kind, ranks, *row.bytes, seconds);
}

}  // namespace

void set_place(ReportRow& row, Job& job) {
  row.comm_backend = job.device_world().backend();
  row.device_count = job.world().size();
  row.device = job.device().info().name;
  row.attention_kernel = job.device().kernels().attention_kernel;
  std::string const device_versions = job.device_versions();
  set_fingerprint(
      row,
      take_fingerprint(device_versions.empty() ? blas_description() : device_versions, MpiProcess::library_version()),
      std::min(local_size(), job.world().size()));
}

void set_measurement(ReportRow& row, Measurement const& m, StepTotals const& totals) {
  set_step_times(row, m.step_ms);
  set_breakdown(row, m.breakdown);
  row.optimizer_ms = m.optimizer_ms;
  row.memory_measured_bytes = m.memory_bytes;
  for (std::size_t a = 0; a < axis_count; ++a)
    if (totals.traffic[a].calls > 0) row.payload_bytes[lane_of(static_cast<Axis>(a))] = m.payload_bytes[a];
  set_rates(row, totals);
  set_verdict(row, m);
}

std::vector<OpsRow> ops_rows(std::string const& run_id, StepProgram const& program, Measurement const& m) {
  StepCount const count = count_step(program, Replay(program));
  std::vector<OpsRow> rows;
  for (LabelTime const& time : m.labels) {
    bool const transfer = time.label >= program.labels.size();
    OpLabel const label =
        transfer ? OpLabel{"pipeline", "transfer", OpKind::send, Axis::pp} : program.labels[time.label];
    LabelCount const& counted = count.labels[std::min<std::size_t>(time.label, program.labels.size())];
    OpsRow row;
    row.run_id = run_id;
    row.label = label.name;
    row.kind = transfer ? "send, receive" : to_string(label.kind);
    row.phase = label.phase;
    row.axis = transfer || is_communication(label.kind) ? to_string(label.axis) : "compute";
    row.count = time.count;
    double const calls = std::max<double>(1, static_cast<double>(counted.count));
    row.bytes = counted.bytes / calls;
    row.flops = counted.flops / calls;
    row.p50_us = time.p50_us;
    row.total_ms = time.total_ms;
    set_op_rates(row, label.kind, transfer ? 2 : group_size(program, time.label));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace shardbench
