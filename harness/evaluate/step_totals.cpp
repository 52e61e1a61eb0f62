#include "harness/evaluate/step_totals.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/report/text.hpp"

namespace shardbench {
namespace {

constexpr std::size_t listed_tensors = 5;

void keep_if_fullest(StepTotals& totals, LoweredStage const& stage) {
  MemoryPlan const& plan = stage.sizes();
  if (plan.peak_bytes() <= totals.peak_bytes) return;
  totals.fullest_stage = stage.program().stage;
  totals.parameter_bytes = plan.parameter_bytes;
  totals.gradient_bytes = plan.gradient_bytes;
  totals.optimizer_bytes = plan.optimizer_bytes;
  totals.buffer_bytes = plan.buffer_bytes;
  totals.kv_cache_bytes = plan.kv_cache_bytes;
  totals.activation_bytes = plan.activation_peak_bytes;
  totals.peak_bytes = plan.peak_bytes();
  totals.microbatches_in_flight =
      plan.microbatches_in_flight.empty() ? 0 : *std::ranges::max_element(plan.microbatches_in_flight);
  totals.largest_tensors = largest_tensors(stage.program(), plan, listed_tensors);
}

}  // namespace

StepTotals total_step(LoweredStep const& step, bool memory) {
  StepTotals totals;
  double const share = 1 / static_cast<double>(step.stages.size());
  for (LoweredStage const& stage : step.stages) {
    StepCount const count = count_step(stage.program(), stage.replay());
    totals.model_flops += share * count.model_flops;
    totals.model_flops_full += share * count.model_flops_full;
    totals.hardware_flops += share * count.hardware_flops;
    totals.parameters_held = std::max(totals.parameters_held, count.parameters);
    for (Axis const a : enum_values<Axis>()) {
      totals.traffic[a].calls += count.traffic[a].calls;
      totals.traffic[a].payload_bytes += share * count.traffic[a].payload_bytes;
      totals.traffic[a].wire_bytes += share * count.traffic[a].wire_bytes;
    }
    if (memory) keep_if_fullest(totals, stage);
  }
  return totals;
}

void set_totals(ReportRow& row, StepTotals const& totals) {
  row.parameter_bytes = static_cast<double>(totals.parameter_bytes);
  row.gradient_bytes = static_cast<double>(totals.gradient_bytes);
  row.optimizer_bytes = static_cast<double>(totals.optimizer_bytes);
  row.activation_bytes = static_cast<double>(totals.activation_bytes);
  row.memory_peak_bytes = static_cast<double>(totals.peak_bytes);
  for (Axis const a : enum_values<Axis>())
    if (totals.traffic[a].calls > 0) row.wire_bytes[lane_of(a)] = totals.traffic[a].wire_bytes;
  row.flops_convention = row.experiment.model.causal ? "causal_halved" : "full";
}

void set_rates(ReportRow& row, StepTotals const& totals) {
  Experiment const& e = row.experiment;
  double const seconds = 1e-3 * *row.step_ms_p50;
  if (seconds <= 0) return;
  double const samples = static_cast<double>(e.global_batch);
  row.samples_per_s = samples / seconds;
  bool const decodes = e.phase == PhaseKind::decode;
  row.tokens_per_s = samples * (decodes ? 1.0 : static_cast<double>(e.seq)) / seconds;
  if (decodes) row.tpot_ms = row.step_ms_p50;
  if (e.phase == PhaseKind::prefill) row.ttft_ms = row.step_ms_p50;
  row.tokens_per_s_per_rank = *row.tokens_per_s / static_cast<double>(e.ranks);
  row.model_tflops_per_rank = totals.model_flops / seconds / 1e12;
  row.hardware_tflops_per_rank = totals.hardware_flops / seconds / 1e12;
}

std::string rate_text(ReportRow const& row) {
  bool const images = row.experiment.model.takes_images();
  return fmt::format("{} {}/s", grouped(images ? *row.samples_per_s : *row.tokens_per_s), images ? "images" : "tokens");
}

void set_utilization(ReportRow& row, double peak_tflops, std::string_view source) {
  row.peak_tflops = peak_tflops;
  row.peak_source = source;
  row.mfu_pct = 100 * *row.model_tflops_per_rank / peak_tflops;
  row.hfu_pct = 100 * *row.hardware_tflops_per_rank / peak_tflops;
}

}  // namespace shardbench
