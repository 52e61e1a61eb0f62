#include "bench/shardbench/jobs/row_builder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/comm/launch_env.hpp"
#include "harness/program/passes/lower.hpp"
#include "harness/record/gpu_peaks.hpp"
#include "kernels/gemm/blas_host.hpp"
#include "kernels/kernel_set.hpp"

namespace shardbench {
namespace {

/// Where the GPU's peak is known. Ranks that share one have none of their own.
void set_gpu_utilization(ReportRow& row) {
  Experiment const& e = row.experiment;
  auto const peaks = gpu_peaks(row.device);
  double const peak = !peaks                       ? 0
                      : e.precision == Dtype::f32  ? peaks->fp32_tflops
                      : e.precision == Dtype::bf16 ? peaks->bf16_tflops
                                                   : peaks->fp8_tflops;
  if (peak <= 0 || e.share_gpu || !row.model_tflops_per_rank) return;
  set_utilization(row, peak, peaks->source);
}

void add_remark(ReportRow& row, std::string const& remark) {
  if (remark.empty()) return;
  row.reason += (row.reason.empty() ? "" : "; ") + remark;
}

void set_verdict(ReportRow& row, Measurement const& m) {
  Cut const& cut = row.experiment.cut;
  std::int64_t const kv_heads = row.experiment.model.kv_heads;
  if (cut.tp > kv_heads && kv_heads > 0)
    add_remark(row,
               fmt::format("each of the {} kv heads is held by {} tensor-parallel ranks", kv_heads, cut.tp / kv_heads));
  if (!m.parity) return;
  bool const itself = is_unsharded(row.experiment);
  if (!itself) row.max_rel_error = m.parity->max_rel_error;
  if (itself && m.parity->passed())
    add_remark(row,
               "check: nothing compared, one rank's uncut step is the unsharded step (cut it, or compare what "
               "--dump writes with another program's)");
  if (m.parity->passed()) return;
  row.outcome = Outcome::incorrect;
  row.reason = m.parity->problem.empty() ? fmt::format("max_rel_error {:.3g} is above {:.3g}, worst at {}",
                                                       m.parity->max_rel_error, m.parity->tolerance, m.parity->worst)
                                         : m.parity->problem;
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
  if (job.on_host()) return;
  row.clock_mhz.reset();  // the CPU's
  // What was asked for by flags, before whatever else the environment has.
  std::string const asked = text_of(nccl_options_of(row.experiment), row.experiment.share_gpu);
  if (!asked.empty() && job.world().size() > 1)
    row.comm_options = asked + (row.comm_options.empty() ? "" : " ") + row.comm_options;
}

namespace {

void set_state(ReportRow& row, DeviceState const& state) {
  if (state.clock_mhz) row.clock_mhz = state.clock_mhz;
  row.power_w = state.power_w;
  row.throttled = state.throttled;
  if (!state.throttle_reasons.empty()) add_remark(row, fmt::format("clock lowered: {}", state.throttle_reasons));
  if (row.experiment.share_gpu) add_remark(row, "ranks may share a GPU: its times mean nothing");
  if (row.experiment.cuda_graph) add_remark(row, "timed as a CUDA graph");
}

}  // namespace

void set_measurement(ReportRow& row, Measurement const& m, StepTotals const& totals) {
  set_step_times(row, m.step_ms);
  set_breakdown(row, m.breakdown);
  row.optimizer_ms = m.optimizer_ms;
  row.loss = m.loss;
  row.grad_norm = m.grad_norm;
  row.memory_measured_bytes = m.memory_bytes;
  for (Axis const a : enum_values<Axis>())
    if (totals.traffic[a].calls > 0) row.payload_bytes[lane_of(a)] = m.payload_bytes[a];
  set_rates(row, totals);
  set_gpu_utilization(row);
  set_verdict(row, m);
  set_state(row, m.state);
}

}  // namespace shardbench
