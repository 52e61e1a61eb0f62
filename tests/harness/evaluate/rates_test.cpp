// The rates of a row by numbers worked out by hand.
#include <gtest/gtest.h>

#include "harness/evaluate/step_totals.hpp"

namespace shardbench::test {
namespace {

// GPT-2 (L 12, h 768, V 50304 padded) with 8 sequences of 1024 tokens, by 72 B s L h^2 (1 + s/(6h) + V/(12 L h)):
//   72 * 8 * 1024 * 12 * 768^2            = 4,174,708,211,712
//   times 1 + 1024/4608 + 50304/110592    = 1 + 2/9 + 131/288
//   = 4,174,708,211,712 + 927,712,935,936 + 1,898,912,415,744 = 7,001,333,563,392 FLOPs a step,
// a fourth of it on each of 4 ranks: 1,750,333,390,848. With every layer recomputed a forward pass, a third of that,
// comes on top: 2,333,777,854,464.
constexpr double model_flops = 1'750'333'390'848, hardware_flops = 2'333'777'854'464;

ReportRow gpt2_row(PhaseKind phase) {
  ReportRow row;
  row.experiment.phase = phase;
  row.experiment.seq = 1024;
  row.experiment.global_batch = 8;
  row.experiment.ranks = 4;
  row.step_ms_p50 = 50;
  StepTotals totals;
  totals.model_flops = model_flops, totals.hardware_flops = hardware_flops;
  set_rates(row, totals);
  return row;
}

TEST(Rates, AreWorkOverTheMedianStep) {
  ReportRow const row = gpt2_row(PhaseKind::train);
  EXPECT_DOUBLE_EQ(*row.samples_per_s, 160);            // 8 / 0.05 s
  EXPECT_DOUBLE_EQ(*row.tokens_per_s, 163'840);         // 160 * 1024
  EXPECT_DOUBLE_EQ(*row.tokens_per_s_per_rank, 40'960);  // over 4 ranks
  EXPECT_DOUBLE_EQ(*row.model_tflops_per_rank, 35.00666781696);
  EXPECT_DOUBLE_EQ(*row.hardware_tflops_per_rank, 46.67555708928);
  EXPECT_FALSE(row.ttft_ms || row.tpot_ms);
  EXPECT_EQ(rate_text(row), "163,840 tokens/s");
}

TEST(Rates, ADecodedStepIsATokenOfEachSample) {
  ReportRow const row = gpt2_row(PhaseKind::decode);
  EXPECT_DOUBLE_EQ(*row.tokens_per_s, 160);
  EXPECT_DOUBLE_EQ(*row.tokens_per_s_per_rank, 40);
  EXPECT_DOUBLE_EQ(*row.tpot_ms, 50);
  EXPECT_FALSE(row.ttft_ms);
}

TEST(Rates, APrefilledStepIsTheWholePrompt) {
  ReportRow const row = gpt2_row(PhaseKind::prefill);
  EXPECT_DOUBLE_EQ(*row.tokens_per_s, 163'840);
  EXPECT_DOUBLE_EQ(*row.ttft_ms, 50);
  EXPECT_FALSE(row.tpot_ms);
}

TEST(Rates, AStepWithoutATimeHasNone) {
  ReportRow row;
  row.step_ms_p50 = 0;
  set_rates(row, {});
  EXPECT_FALSE(row.tokens_per_s || row.samples_per_s || row.model_tflops_per_rank);
}

// Of an A100's 312 TFLOP/s: 35.00666781696 / 312 and 46.67555708928 / 312.
TEST(Utilization, CountsRecomputationInHfuOnly) {
  ReportRow row = gpt2_row(PhaseKind::train);
  set_utilization(row, 312, "data sheet");
  EXPECT_NEAR(*row.mfu_pct, 11.22008584, 1e-8);
  EXPECT_NEAR(*row.hfu_pct, 14.96011445, 1e-8);
  EXPECT_DOUBLE_EQ(*row.peak_tflops, 312);
  EXPECT_EQ(row.peak_source, "data sheet");
}

TEST(Totals, OnlyAxesThatCommunicateHaveWireBytes) {
  ReportRow row;
  row.experiment.model.causal = true;
  StepTotals totals;
  totals.traffic[Axis::pp] = {.calls = 2, .payload_bytes = 7, .wire_bytes = 9};
  totals.peak_bytes = 11;
  set_totals(row, totals);
  EXPECT_EQ(row.wire_bytes.pp, 9);
  EXPECT_FALSE(row.wire_bytes.tp || row.wire_bytes.cp || row.wire_bytes.dp || row.wire_bytes.ep);
  EXPECT_EQ(row.memory_peak_bytes, 11);
  EXPECT_EQ(row.flops_convention, "causal_halved");
}

TEST(Lanes, AnAxisHasTheLaneOfItsName) {
  for (Axis const axis : enum_values<Axis>()) EXPECT_EQ(to_string(lane_of(axis)), to_string(axis));
}

}  // namespace
}  // namespace shardbench::test
