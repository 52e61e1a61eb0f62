#include <gtest/gtest.h>

#include "harness/evaluate/error_band.hpp"
#include "harness/evaluate/simulated_row.hpp"
#include "harness/program/passes/lower.hpp"
#include "tests/harness/exec/small_models.hpp"

namespace shardbench::test {
namespace {

StepProgram with_labels() {
  StepProgram p;
  p.labels.add({"attention.qkv", "forward", OpKind::gemm});
  p.labels.add({"mlp.reduce", "backward", OpKind::all_reduce, Axis::tp});
  p.labels.add({"never", "forward", OpKind::add});
  return p;
}

Span span(std::uint32_t label, double start_ms, double end_ms) { return {Lane::compute, label, 0, start_ms, end_ms}; }

// Label 0 runs 1 + 0.5 ms, label 1 runs 3 ms, a transfer (one behind the last label) 2 ms; label 2 does not run.
TEST(LabelShares, SumTheSpansOfALabelLongestFirst) {
  StageTimeline stage;
  stage.spans = {span(0, 0, 1), span(1, 1, 4), span(0, 4, 4.5), span(3, 5, 7)};
  auto const shares = label_shares(with_labels(), stage);
  ASSERT_EQ(shares.size(), 3u);
  EXPECT_EQ(shares[0].label.name, "mlp.reduce");
  EXPECT_DOUBLE_EQ(shares[0].total_ms, 3);
  EXPECT_EQ(shares[1].label.phase, "transfer");
  EXPECT_DOUBLE_EQ(shares[1].total_ms, 2);
  EXPECT_EQ(shares[2].label.name, "attention.qkv");
  EXPECT_DOUBLE_EQ(shares[2].total_ms, 1.5);
  EXPECT_EQ(shares[2].count, 2);
}

// Two stages: 2 calls in 1.5 ms and 1 call in 3 ms are 1.5 ms a call, at most 2 calls, and 4.5 / 2 ms a stage.
TEST(OpsRows, MergeStagesAsMeasuredRowsMergeRanks) {
  Prediction p;
  p.stages.assign(2, with_labels());
  p.result.stages.resize(2);
  p.result.stages[0].spans = {span(0, 0, 1), span(0, 4, 4.5)};
  p.result.stages[1].spans = {span(0, 0, 3)};
  auto const rows = predicted_ops_rows("run", p);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].label, "attention.qkv");
  EXPECT_EQ(rows[0].axis, "compute");
  EXPECT_EQ(*rows[0].count, 2);
  EXPECT_DOUBLE_EQ(*rows[0].predicted_us, 1500);
  EXPECT_DOUBLE_EQ(*rows[0].total_ms, 2.25);
}

ReportRow row_with(MemoryFit const& memory, std::string const& remark) {
  ReportRow row;
  row.experiment = small_experiment(small_llama(2), cut(1, 1, 1));
  row.reason = remark;
  Prediction p;
  p.step_ms = 10;
  set_prediction(row, p, memory, CostModel(load_system("a100-80gb-sxm"), load_stack("ours")), {});
  return row;
}

TEST(MemoryVerdict, AStepThatDoesNotFitFailsAndNamesWhatIsLarge) {
  MemoryFit m;
  m.stage = 2;
  m.needed_bytes = 100e9, m.capacity_bytes = 80e9;
  m.largest = {{"bucket0.weights", 30'000'000'000}, {"logits", 5'000'000'000}};
  ReportRow const row = row_with(m, "a remark");
  EXPECT_EQ(row.outcome, Outcome::failed);
  EXPECT_EQ(row.reason,
            "out of memory: stage 2 needs 100 GB of 80 GB (largest: bucket0.weights 30 GB, logits 5 GB); a remark");
  EXPECT_DOUBLE_EQ(*row.memory_peak_bytes, 100e9);
}

// Linear layers in fp8 are measured against the fp8 peak, twice that of bf16 on H100.
TEST(Utilization, IsOfThePrecisionThatRan) {
  auto const row_of = [](char const* stack) {
    ReportRow row;
    row.experiment = small_experiment(small_llama(2), cut(1, 1, 1));
    row.experiment.precision = Dtype::bf16;
    Prediction p;
    p.step_ms = 10;
    StepTotals totals;
    totals.model_flops = 1e13;
    set_prediction(row, p, MemoryFit{}, CostModel(load_system("h100-sxm"), load_stack(stack)), totals);
    return row;
  };
  ReportRow const bf16 = row_of("te-2025"), fp8 = row_of("te-2025-fp8");
  EXPECT_NEAR(*bf16.mfu_pct, 100 * 1000 / 989.4, 1e-9);
  EXPECT_NEAR(*fp8.mfu_pct, 100 * 1000 / 1978.9, 1e-9);
  EXPECT_EQ(bf16.peak_source, "system profile, bf16");
  EXPECT_EQ(fp8.peak_source, "system profile, fp8");
}

TEST(ErrorBand, IsThatOfStackPrecisionKindAndScale) {
  std::string_view const table =
      "stack,precision,kind,devices_from,devices_to,rows,band_pct\na,bf16,dense,1,8,12,4.5\na,bf16,dense,9,64,7,6\n"
      "a,bf16,experts,1,8,5,20\nb,fp8,dense,1,8,5,3\n";
  EXPECT_EQ(error_band_pct(table, "a", "bf16", "dense", 8), 4.5);
  EXPECT_EQ(error_band_pct(table, "a", "bf16", "dense", 9), 6);
  EXPECT_EQ(error_band_pct(table, "a", "bf16", "experts", 1), 20);
  EXPECT_EQ(error_band_pct(table, "b", "fp8", "dense", 4), 3);
  EXPECT_EQ(error_band_pct(table, "a", "bf16", "dense", 65), std::nullopt);
  EXPECT_EQ(error_band_pct(table, "a", "fp8", "dense", 8), std::nullopt);
  EXPECT_EQ(error_band_pct("", "a", "bf16", "dense", 8), std::nullopt);
}

TEST(MemoryVerdict, AStepThatJustFitsPasses) {
  MemoryFit m;
  m.needed_bytes = m.capacity_bytes = 80e9;
  ReportRow const row = row_with(m, "a remark");
  EXPECT_EQ(row.outcome, Outcome::passed);
  EXPECT_EQ(row.reason, "a remark");
  EXPECT_DOUBLE_EQ(*row.step_ms_p50, 10);
}

/// What a command that foretells a step does, in programs lowered and memory plans made.
std::pair<std::int64_t, std::int64_t> work_of(Experiment const& e, char const* stack) {
  CostModel const model(load_system("h100-sxm"), load_stack(stack));
  std::int64_t const lowered = programs_lowered, planned = memory_plans_made;
  PredictedStep const step = predict(lower_step(e), model);
  EXPECT_GT(step.prediction.step_ms, 0);
  EXPECT_GT(step.memory.needed_bytes, 0);
  EXPECT_GT(step.totals.model_flops, 0);
  return {programs_lowered - lowered, memory_plans_made - planned};
}

TEST(LowerOnce, AForetoldStepLowersAndPlansOnceAStage) {
  Experiment const e = small_experiment(small_llama(4), cut(2, 2, 4));
  EXPECT_EQ(work_of(e, "ours"), (std::pair<std::int64_t, std::int64_t>{4, 4}));
  // This stack runs programs of its own, which are made of those that were lowered.
  EXPECT_EQ(work_of(e, "megatron-unfused"), (std::pair<std::int64_t, std::int64_t>{4, 4}));
}

TEST(LowerOnce, ACountedStepPlansOnceAStage) {
  Experiment const e = small_experiment(small_llama(4), cut(1, 1, 4));
  LoweredStep const step = lower_step(e);
  std::int64_t const lowered = programs_lowered, planned = memory_plans_made;
  EXPECT_GT(total_step(step).peak_bytes, 0);
  EXPECT_GT(total_step(step).peak_bytes, 0);
  EXPECT_EQ(programs_lowered - lowered, 0);
  EXPECT_EQ(memory_plans_made - planned, 4);
  // A stage speaks for its own rank, others are lowered.
  step.of_rank(e.ranks - 1);
  EXPECT_EQ(programs_lowered - lowered, 0);
}

}  // namespace
}  // namespace shardbench::test
