#include <gtest/gtest.h>

#include "kernels/operations.hpp"

namespace shardbench {
namespace {

TEST(Cost, GemmCountsProductsAndOperands) {
  CostContext context{.precision = Dtype::bf16, .output = Dtype::f32};
  OpCost const cost = GemmArgs::cost({3, 5, 7}, context);
  EXPECT_EQ(cost.flops, 2 * 3 * 5 * 7);
  EXPECT_EQ(cost.bytes, 2 * (3 * 7 + 7 * 5) + 4 * 3 * 5);
  context.adds = true;
  EXPECT_EQ(GemmArgs::cost({3, 5, 7}, context).bytes, cost.bytes + 4 * 3 * 5);
  EXPECT_EQ(GemmArgs::cost({100000, 100000, 100000}, {}).flops, 2e15);  // beyond 32 bits
}

TEST(Cost, ABiasIsNoModelFlop) {
  OpCost const plain = GemmArgs::cost({3, 5, 7}, {}), biased = GemmArgs::cost({3, 5, 7}, {.given_inputs = 0b111});
  EXPECT_EQ(biased.flops, plain.flops + 3 * 5);
  EXPECT_EQ(biased.bytes, plain.bytes + 4 * 5);
  EXPECT_EQ(biased.model_flops, plain.flops);
}

TEST(Cost, OneGroupIsAGemm) {
  CostContext const context{.precision = Dtype::bf16, .output = Dtype::bf16};
  GroupedGemmShape shape{.groups = 1, .m = 9, .n = 5, .k = 7, .expected_m = 9};
  EXPECT_EQ(GroupedGemmArgs::cost(shape, context).flops, GemmArgs::cost({9, 5, 7}, context).flops);
  EXPECT_EQ(GroupedGemmArgs::cost(shape, context).bytes, GemmArgs::cost({9, 5, 7}, context).bytes);
  shape = {.groups = 1, .m = 5, .n = 7, .k = 9, .weight_gradient = true, .expected_m = 9};
  EXPECT_EQ(GroupedGemmArgs::cost(shape, context).bytes, GemmArgs::cost({5, 7, 9}, context).bytes);
}

/// The pairs one by one.
double counted_pairs(AttentionVisibility const& v) {
  double pairs = 0;
  for (std::int64_t i = 0; i < v.seq_q; ++i) {
    for (std::int64_t j = 0; j < v.seq_k; ++j) {
      std::int64_t const age = v.q_offset + i - j;
      if ((!v.causal || age >= 0) && (v.window <= 0 || age < v.window)) ++pairs;
    }
  }
  return pairs;
}

TEST(Cost, VisiblePairsEqualTheirCount) {
  for (std::int64_t const seq_q : {0, 1, 5, 16}) {
    for (std::int64_t const seq_k : {0, 1, 7, 16, 30}) {
      for (std::int64_t const window : {0, 1, 4, 100}) {
        for (std::int64_t offset = -20; offset <= 40; ++offset) {
          for (bool const causal : {false, true}) {
            AttentionVisibility const v{seq_q, seq_k, causal, window, offset};
            EXPECT_EQ(visible_pairs(v), counted_pairs(v))
                << seq_q << ' ' << seq_k << ' ' << window << ' ' << offset << ' ' << causal;
          }
        }
      }
    }
  }
}

TEST(Cost, VisiblePairsOfACausalSquareAreTheTriangle) {
  EXPECT_EQ(visible_pairs({4096, 4096, true, 0, 0}), 4096.0 * 4097 / 2);
  EXPECT_EQ(visible_pairs({1, 4096, true, 0, 4095}), 4096);
}

TEST(Cost, AttentionAgreesWithTheTransformerFormula) {
  // 12 q s per token and layer forwards and backwards together, counted in full (Megatron-LM's training.py).
  std::int64_t const seq = 128, heads = 4, dim = 16, batch = 3;
  AttentionOpShape shape{seq, seq, batch, heads, 2, dim, dim};
  shape.visible_pairs = 128.0 * 129 / 2, shape.full_pairs = 128.0 * 128.0;
  OpCost const forward = AttentionForwardArgs::cost(shape, {}), backward = AttentionBackwardArgs::cost(shape, {});
  double const per_token = 12.0 * static_cast<double>(heads * dim) * static_cast<double>(seq);
  EXPECT_EQ(forward.model_flops_full + backward.model_flops_full, per_token * static_cast<double>(seq * batch));
  EXPECT_EQ(forward.model_flops, forward.flops);
  EXPECT_EQ(backward.model_flops, 2 * forward.flops);
  EXPECT_EQ(backward.flops, 2.5 * forward.flops);
}

TEST(Cost, AttentionBytesKnowTheKvHeads) {
  AttentionOpShape shape{8, 8, 1, 4, 4, 16, 16};
  double const all = AttentionForwardArgs::cost(shape, {Dtype::bf16}).bytes;
  EXPECT_EQ(all, 2.0 * 4 * (8 * 4 * 16) + 4.0 * 8 * 4);
  shape.kv_heads = 1;
  EXPECT_EQ(all - AttentionForwardArgs::cost(shape, {Dtype::bf16}).bytes, 2.0 * 2 * 8 * 3 * 16);
}

TEST(Cost, MemoryBoundOpsCountTheirTensors) {
  EXPECT_EQ(AddArgs::cost({1, 10}, {Dtype::bf16}).bytes, 60);
  EXPECT_EQ(
      NormForwardArgs::cost({.kind = NormKind::rms_norm, .rows = 2, .cols = 8, .residual = true}, {Dtype::bf16}).bytes,
      4 * 2 * 16 + 4 * 2);
  EXPECT_EQ(ActivationForwardArgs::cost({ActivationKind::silu, true, 2, 8}, {}).bytes, 4 * 3 * 16);
  EXPECT_EQ(AdamWArgs::cost({1}, {.precision = Dtype::bf16, .given_outputs = 0b11}).bytes, 2 + 8 + 4 + 16);
  EXPECT_EQ(AdamWArgs::cost({1}, {.given_outputs = 0b1}).bytes, 8 + 4 + 16);
  EXPECT_EQ(CopyBlockArgs::cost({3, 4}, {.input = Dtype::f32, .output = Dtype::bf16}).bytes, 72);
  EXPECT_EQ((2 * AddArgs::cost({1, 10}, {}) + AddArgs::cost({1, 1}, {})).bytes, 252);
}

TEST(Cost, TheHostWaitsForBytesToo) {
  EXPECT_EQ(PickTokenArgs::cost({.rows = 3, .parts = 4}, {}).bytes, 4 * (2 * 3 * 4 + 3));
  EXPECT_EQ(FetchCounts::cost({.experts = 8}, {}).bytes, 4 * 8);
  EXPECT_EQ(FetchCounts::cost({.experts = 8, .ranks = 2}, {}).bytes, 4 * 8 * 2)
      << "what comes is fetched with what goes";
}

}  // namespace
}  // namespace shardbench
