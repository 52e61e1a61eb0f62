// What each operation costs at sizes that are all different, worked out by hand from what its header says: FLOPs, the
// bytes of every operand read or written once, and what of the FLOPs is the model's.
#include <gtest/gtest.h>

#include "kernels/operations.hpp"

namespace shardbench {
namespace {

CostContext in_bf16() { return {.precision = Dtype::bf16, .input = Dtype::bf16, .output = Dtype::bf16}; }

void expect_cost(OpCost const& cost, double flops, double bytes, double model_flops = 0, double model_flops_full = 0) {
  EXPECT_DOUBLE_EQ(cost.flops, flops);
  EXPECT_DOUBLE_EQ(cost.bytes, bytes);
  EXPECT_DOUBLE_EQ(cost.model_flops, model_flops);
  EXPECT_DOUBLE_EQ(cost.model_flops_full, model_flops_full);
}

TEST(CostByHand, SumsAndMultiples) {
  OpCost cost{2, 3, 5, 7};
  cost += {11, 13, 17, 19};
  expect_cost(cost, 13, 16, 22, 26);
  expect_cost(3 * cost, 39, 48, 66, 78);
  expect_cost(product_cost(11, 13), 11, 13, 11, 11);
}

TEST(CostByHand, ContextKnowsItsOperandsAndRows) {
  CostContext const c{.given_inputs = 0b101, .given_outputs = 0b010, .output_rows = 8, .expected_output_rows = 6};
  EXPECT_TRUE(c.has_input(0) && !c.has_input(1) && c.has_input(2));
  EXPECT_TRUE(!c.has_output(0) && c.has_output(1));
  EXPECT_DOUBLE_EQ(c.expected_share(), 0.75);
  EXPECT_DOUBLE_EQ(CostContext{}.expected_share(), 1);
}

// 105 products and sums; A 3x7, B 7x5, C 3x5 of two bytes.
TEST(CostByHand, Gemm) {
  expect_cost(GemmArgs::cost({3, 5, 7}, in_bf16()), 210, 2 * (21 + 35 + 15), 210, 210);
  CostContext biased = in_bf16();
  biased.given_inputs = 0b111, biased.adds = true;
  expect_cost(GemmArgs::cost({3, 5, 7}, biased), 225, 2 * (21 + 35 + 5) + 2 * 15 * 2, 210, 210);
}

// Two experts, 6 rows expected of at most 9: the weights of both are read.
TEST(CostByHand, GroupedGemm) {
  GroupedGemmShape s{.groups = 2, .m = 9, .n = 5, .k = 7, .expected_m = 6};
  expect_cost(GroupedGemmArgs::cost(s, in_bf16()), 2 * 6 * 5 * 7, 2 * (6 * 7 + 2 * 7 * 5 + 6 * 5), 420, 420);
  // C[g] 7x5 from 6 rows of 7 and of 5.
  s = {.groups = 2, .m = 7, .n = 5, .k = 9, .weight_gradient = true, .expected_m = 6};
  CostContext fp32_out = in_bf16();
  fp32_out.output = Dtype::f32;
  expect_cost(GroupedGemmArgs::cost(s, fp32_out), 2 * 6 * 7 * 5, 2 * 6 * (7 + 5) + 4 * 2 * 35, 420, 420);
  fp32_out.adds = true;
  expect_cost(GroupedGemmArgs::cost(s, fp32_out), 420, 2 * 6 * (7 + 5) + 2 * 4 * 2 * 35, 420, 420);
}

/// 3 queries, 5 keys, 2 samples, 4 heads over 2 of keys, dims 7 and 11.
AttentionOpShape attention() {
  AttentionOpShape s{3, 5, 2, 4, 2, 7, 11};
  s.visible_pairs = 13, s.full_pairs = 15;
  return s;
}

TEST(CostByHand, Attention) {
  // q 3*2*4*7, k 5*2*2*7, v 5*2*2*11, out 3*2*4*11; a statistic each of 3*2*4.
  double const operands = 168 + 140 + 220 + 264, statistics = 24;
  // A pair: a product over 7 and one over 11, in each of 2 samples and 4 heads.
  expect_cost(AttentionForwardArgs::cost(attention(), in_bf16()), 2 * 8 * 13 * 18, 2 * operands + 4 * statistics,
              2 * 8 * 13 * 18, 2 * 8 * 15 * 18);
  // Backward: scores again and dq, dk over 7, dp and dv over 11; the model's are without the scores again.
  expect_cost(AttentionBackwardArgs::cost(attention(), in_bf16()), 2 * 8 * 13 * (3 * 7 + 2 * 11),
              2 * 2 * operands + 4 * statistics, 2 * 8 * 13 * 2 * 18, 2 * 8 * 15 * 2 * 18);
  // Two partial outputs become one: 3 passes over 3*2*4*11, with two statistics read and one written.
  expect_cost(AttentionMergeArgs::cost(attention(), in_bf16()), 3 * 264 + 8 * 24, 3 * 2 * 264 + 3 * 4 * 24);
}

TEST(CostByHand, Norms) {
  NormShape s{.kind = NormKind::layer_norm, .rows = 3, .cols = 5, .heads = 2};  // 6 vectors, 30 elements
  expect_cost(NormForwardArgs::cost(s, in_bf16()), 8 * 30, 2 * 2 * 30 + 4 * 2 * 6);
  expect_cost(NormBackwardArgs::cost(s, in_bf16()), 15 * 30, 3 * 2 * 30 + 4 * (2 * 6 + 2 * 5));
  s.residual = true;
  expect_cost(NormForwardArgs::cost(s, in_bf16()), 9 * 30, 4 * 2 * 30 + 4 * 2 * 6);
  expect_cost(NormBackwardArgs::cost(s, in_bf16()), 16 * 30, 4 * 2 * 30 + 4 * (2 * 6 + 2 * 5));
  s.kind = NormKind::rms_norm;
  expect_cost(NormForwardArgs::cost(s, in_bf16()), 6 * 30, 4 * 2 * 30 + 4 * 6);
  expect_cost(NormBackwardArgs::cost(s, in_bf16()), 12 * 30, 4 * 2 * 30 + 4 * (6 + 5));
  s.residual = false;
  expect_cost(NormForwardArgs::cost(s, in_bf16()), 5 * 30, 2 * 2 * 30 + 4 * 6);
  expect_cost(NormBackwardArgs::cost(s, in_bf16()), 11 * 30, 3 * 2 * 30 + 4 * (6 + 5));
  expect_cost(BatchNormForwardArgs::cost({3, 5}, in_bf16()), 7 * 15, 2 * 2 * 15);
  expect_cost(BatchNormBackwardArgs::cost({3, 5}, in_bf16()), 14 * 15, 3 * 2 * 15);
}

TEST(CostByHand, RopeTurnsOnlyRotaryDims) {
  expect_cost(RopeArgs::cost(RopeShape{3, 2, 5, 16, 14, {}, false}, in_bf16()), 3 * 3 * 2 * 5 * 14,
              2 * 2 * 3 * 2 * 5 * 14);
}

TEST(CostByHand, Activations) {
  ActivationShape const plain{ActivationKind::gelu_tanh, false, 3, 5}, gated{ActivationKind::silu, true, 3, 5};
  expect_cost(ActivationForwardArgs::cost(plain, in_bf16()), 10 * 15, 2 * 2 * 15);
  expect_cost(ActivationForwardArgs::cost(gated, in_bf16()), 11 * 15, 2 * 3 * 15);
  expect_cost(ActivationBackwardArgs::cost(plain, in_bf16()), 15 * 15, 2 * 3 * 15);
  expect_cost(ActivationBackwardArgs::cost(gated, in_bf16()), 18 * 15, 2 * 5 * 15);
  // Of routed rows, those that are expected.
  CostContext routed = in_bf16();
  routed.output_rows = 12, routed.expected_output_rows = 4;
  expect_cost(ActivationForwardArgs::cost(plain, routed), 50, 20);
  expect_cost(ActivationBackwardArgs::cost(gated, routed), 90, 50);
}

TEST(CostByHand, Embeddings) {
  EmbeddingShape const s{.tokens = 3, .rows = 7, .cols = 5};
  CostContext adds = in_bf16();
  adds.adds = true;
  expect_cost(EmbeddingForwardArgs::cost(s, in_bf16()), 0, 2 * 2 * 15);
  expect_cost(EmbeddingForwardArgs::cost(s, adds), 15, 3 * 2 * 15);
  // Rows of the fp32 gradient are read and written; a fresh one is cleared as a whole first.
  expect_cost(EmbeddingBackwardArgs::cost(s, adds), 15, (2 + 8) * 15);
  expect_cost(EmbeddingBackwardArgs::cost(s, in_bf16()), 15, (2 + 8) * 15 + 4 * 35);
}

TEST(CostByHand, CrossEntropy) {
  CrossEntropyOpShape const s{.tokens = 3, .columns = 5};
  expect_cost(CrossEntropyMaxArgs::cost(s, in_bf16()), 15, 2 * 15 + 4 * 3);
  expect_cost(CrossEntropySumArgs::cost(s, in_bf16()), 3 * 15, 2 * 15 + 4 * 4 * 3);
  expect_cost(CrossEntropyLossArgs::cost(s, in_bf16()), 3 * 3, 4 * 3 * 3);
  expect_cost(CrossEntropyBackwardArgs::cost(s, in_bf16()), 3 * 15, 2 * 2 * 15 + 4 * 3 * 3);
}

TEST(CostByHand, Elementwise) {
  expect_cost(AddArgs::cost({3, 5}, in_bf16()), 2 * 15, 3 * 2 * 15);
  expect_cost(ColumnSumArgs::cost({3, 5}, in_bf16()), 15, 2 * 15 + 4 * 5);
  expect_cost(SquareSumArgs::cost({1, 15}, in_bf16()), 2 * 15, 2 * 15);
  expect_cost(CopyBlockArgs::cost({3, 5}, {.input = Dtype::f32, .output = Dtype::bf16}), 0, (4 + 2) * 15);
  expect_cost(CacheAppend::cost({3, 5}, in_bf16()), 0, 2 * 2 * 15);
}

TEST(CostByHand, Dropout) {
  DropoutShape const s{.rows = 3, .cols = 5};
  CostContext c = in_bf16();
  c.given_inputs = 0b001;
  expect_cost(DropoutArgs::cost(s, c), 4 * 15, 2 * 2 * 15);
  c.given_inputs = 0b011;
  expect_cost(DropoutArgs::cost(s, c), 4 * 15, 2 * (2 * 15 + 5));
  c.given_inputs = 0b101;
  expect_cost(DropoutArgs::cost(s, c), 4 * 15, 2 * 3 * 15);
  c.given_inputs = 0b111;
  expect_cost(DropoutArgs::cost(s, c), 4 * 15, 2 * (3 * 15 + 5));
}

TEST(CostByHand, Optimizer) {
  CostContext c = in_bf16();
  c.input = Dtype::f32;  // gradients
  c.given_outputs = 0b01;
  // The parameter and both fp32 averages read and written, the gradient read.
  expect_cost(AdamWArgs::cost({5}, c), 14 * 5, 5 * (2 * 2 + 4 + 4 * 4));
  c.given_outputs = 0b11;  // with a master: it is read and written, the parameter written only
  expect_cost(AdamWArgs::cost({5}, c), 14 * 5, 5 * (2 + 2 * 4 + 4 + 4 * 4));
  c.input = Dtype::bf16;
  expect_cost(AdamWArgs::cost({5}, c), 14 * 5, 5 * (2 + 2 * 4 + 2 + 4 * 4));
  expect_cost(ClipFactorArgs::cost({1}, c), 4, 2 * 4);
}

/// 5 x 4 pixels of 2 samples and 3 channels; windows of 3 x 3 at every second, one pixel of border: 3 x 2 outputs.
WindowShape window() {
  return {.height = 5, .width = 4, .batch = 2, .channels = 3, .kernel = 3, .stride = 2, .padding = 1};
}

TEST(CostByHand, WindowsSeeWhatTheySee) {
  EXPECT_EQ(window().out_height(), 3);
  EXPECT_EQ(window().out_width(), 2);
  EXPECT_EQ(window().in_elements(), 120);
  EXPECT_EQ(window().out_elements(), 36);
  EXPECT_EQ(window().out_rows(), 12);
  EXPECT_EQ(window().taps(), 9);
}

TEST(CostByHand, Convolutions) {
  expect_cost(Im2colArgs::cost(window(), in_bf16()), 0, 2 * (120 + 9 * 36));
  expect_cost(Col2imArgs::cost(window(), in_bf16()), 9 * 36, 2 * (120 + 9 * 36));
  expect_cost(DepthwiseForwardArgs::cost(window(), in_bf16()), 2 * 9 * 36, 2 * (120 + 36), 648, 648);
  // x read, dx written, dy read.
  expect_cost(DepthwiseBackwardArgs::cost(window(), in_bf16()), 4 * 9 * 36, 2 * (2 * 120 + 36), 1296, 1296);
}

TEST(CostByHand, Pools) {
  // A byte says which tap was chosen.
  expect_cost(MaxPoolForwardArgs::cost(window(), in_bf16()), 9 * 36, 2 * (120 + 36) + 36);
  expect_cost(MaxPoolBackwardArgs::cost(window(), in_bf16()), 36, 2 * (120 + 36) + 36);
  UpsampleShape const twice{.height = 3, .width = 5, .batch = 2, .channels = 7, .factor = 2};  // 210 become 840
  expect_cost(UpsampleForwardArgs::cost(twice, in_bf16()), 0, 2 * (210 + 840));
  expect_cost(UpsampleBackwardArgs::cost(twice, in_bf16()), 840, 2 * (210 + 840));
  // 3 of 7 positions of 2 samples of 5: read, and one row written; backwards all 7 are written.
  PoolRowsShape const rows{.seq = 7, .batch = 2, .cols = 5, .begin = 1, .end = 4};
  expect_cost(PoolRowsForwardArgs::cost(rows, in_bf16()), 2 * 30, 2 * (30 + 10));
  expect_cost(PoolRowsBackwardArgs::cost(rows, in_bf16()), 30, 2 * (70 + 10));
}

TEST(CostByHand, Experts) {
  RouterShape router;
  router.rule.experts = 5, router.rule.top_k = 2, router.tokens = 3;
  expect_cost(RouterForwardArgs::cost(router, in_bf16()), 8 * 15, 2 * 15 + 2 * 4 * 6);
  expect_cost(RouterBackwardArgs::cost(router, in_bf16()), 8 * 15, 2 * 2 * 15 + 2 * 4 * 6);
  PermuteShape const rows{.tokens = 9, .slots = 2, .cols = 5, .sorted = 18, .expected_tokens = 3, .expected_sorted = 7};
  // 3 rows of one side, 7 of the other, and where each of 7 goes with its weight.
  double const bytes = 2 * (3 + 7) * 5 + 2 * 4 * 7;
  expect_cost(PermuteArgs::cost(rows, in_bf16()), 35, bytes);
  expect_cost(UnpermuteArgs::cost(rows, in_bf16()), 35, bytes);
  expect_cost(CombineWeightsArgs::cost(rows, in_bf16()), 70, bytes);
  RowsShape const places{.tokens = 3, .top_k = 2, .experts = 5, .ranks = 7, .copies = 11};
  expect_cost(ExpertRowsArgs::cost(places, in_bf16()), 66, 4 * (2 * 66 + 35));
  CostContext routed = in_bf16();
  routed.expected_output_rows = 13;
  expect_cost(SourceRowsArgs::cost(places, routed), 13, 4 * (2 * 13 + 35));
  expect_cost(FetchCounts::cost(places, in_bf16()), 0, 4 * 2 * 55);
  expect_cost(FetchCounts::cost({.experts = 5}, in_bf16()), 0, 4 * 5);
}

TEST(CostByHand, LatentKeys) {
  // 3 rows of 2 heads of 5 + 7: keys 72, parts 3 * (10 + 7) = 51.
  LatentKeysShape const s{.rows = 3, .heads = 2, .plain_dim = 5, .rotary_dim = 7};
  expect_cost(JoinKeysArgs::cost(s, in_bf16()), 0, 2 * (72 + 51));
  expect_cost(SplitKeysArgs::cost(s, in_bf16()), 42, 2 * (72 + 51));
}

TEST(CostByHand, Greedy) {
  expect_cost(BestTokenArgs::cost({.rows = 3, .columns = 5}, in_bf16()), 15, 30);
  expect_cost(PickTokenArgs::cost({.rows = 3, .columns = 5, .parts = 7}, in_bf16()), 21, 4 * (2 * 21 + 3));
}

}  // namespace
}  // namespace shardbench
