#include "bench/shardbench/plan/plan_rows.hpp"

#include <fmt/format.h>

#include "bench/shardbench/cli/outputs.hpp"
#include "bench/shardbench/plan/plan_flags.hpp"
#include "harness/evaluate/simulated_row.hpp"

namespace shardbench {
namespace {

ReportRow row_of(PlanInput const& input, CostModel const& model, Experiment const& e, Prediction const& prediction,
                 MemoryFit const& memory) {
  ReportRow row = start_row(e, Source::planned);
  row.command = simulate_command_of(input, e);
  row.run_command = run_command_of(e);
  StepTotals const totals = total_step(lower_step(e), false);  // the memory is told by the prediction
  set_totals(row, totals);
  set_prediction(row, prediction, memory, model, totals);
  return row;
}

}  // namespace

RunCost run_cost(PlanInput const& input, Experiment const& e, double step_ms) {
  RunBudget const& b = input.budget;
  RunCost cost;
  if (b.tokens == 0) return cost;
  cost.goodput = goodput(e.ranks, b.failures);
  cost.training = training_budget(b.tokens, static_cast<double>(e.global_batch * e.seq), step_ms, e.ranks, cost.goodput,
                                  b.failures.straggler_share, b.price_per_device_hour);
  return cost;
}

std::string simulate_command_of(PlanInput const& input, Experiment const& e) {
  return fmt::format("shardbench simulate {} --system {} --stack {}", command_flags(e), input.system, input.stack);
}

std::string run_command_of(Experiment const& e) {
  return fmt::format("shardbench run {} --device cuda", command_flags(e));
}

ReportRow planned_row(PlanInput const& input, CostModel const& model, PlannedPoint const& point) {
  Experiment const& e = point.experiment;
  ReportRow row = row_of(input, model, e, point.prediction, point.memory);
  row.megatron_flags = megatron_flags(e, model.stack());
  row.torchtitan_flags = torchtitan_flags(e);
  if (input.budget.tokens == 0) return row;
  RunCost const cost = run_cost(input, e, point.step_ms);
  row.training_days = cost.training.days;
  row.device_hours = cost.training.device_hours;
  if (input.budget.price_per_device_hour > 0) row.cost_usd = cost.training.cost;
  if (input.budget.failures.mtbf_device_hours > 0) row.goodput_pct = 100 * cost.goodput.effective_share;
  return row;
}

std::vector<ReportRow> served_rows(PlanInput const& input, CostModel const& model, ServedPoint const& point) {
  return {row_of(input, model, point.prefill, point.prefill_step, point.prefill_memory),
          row_of(input, model, point.decode, point.decode_step, point.decode_memory)};
}

void mark_front(std::vector<ReportRow>& rows) {
  std::vector<PlanScore> scores;
  std::vector<ReportRow*> passed;
  for (ReportRow& row : rows) {
    if (row.outcome != Outcome::passed) continue;
    double const device_ms = *row.step_ms_p50 * static_cast<double>(row.experiment.ranks);
    scores.push_back({*row.step_ms_p50, *row.memory_peak_bytes, row.device_hours.value_or(device_ms)});
    passed.push_back(&row);
  }
  std::vector<bool> const kept = pareto_front(scores);
  for (std::size_t i = 0; i < passed.size(); ++i) passed[i]->pareto = kept[i];
}

}  // namespace shardbench
