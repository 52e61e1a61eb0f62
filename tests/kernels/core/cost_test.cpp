#include "kernels/core/cost.hpp"

#include <gtest/gtest.h>

namespace shardbench {
namespace {

TEST(Cost, GemmCountsProductsAndOperands) {
  OpCost const cost = gemm_cost(3, 5, 7, Dtype::bf16, Dtype::f32);
  EXPECT_EQ(cost.flops, 2 * 3 * 5 * 7);
  EXPECT_EQ(cost.bytes, 2 * (3 * 7 + 7 * 5) + 4 * 3 * 5);
  EXPECT_EQ(gemm_cost(3, 5, 7, Dtype::bf16, Dtype::f32, true).bytes, cost.bytes + 4 * 3 * 5);
  EXPECT_EQ(gemm_cost(100000, 100000, 100000, Dtype::f32, Dtype::f32).flops, 2e15);  // beyond 32 bits
}

TEST(Cost, OneGroupIsAGemm) {
  EXPECT_EQ(grouped_gemm_cost(9, 1, 5, 7, Dtype::bf16, Dtype::bf16).flops,
            gemm_cost(9, 5, 7, Dtype::bf16, Dtype::bf16).flops);
  EXPECT_EQ(grouped_gemm_cost(9, 1, 5, 7, Dtype::bf16, Dtype::bf16).bytes,
            gemm_cost(9, 5, 7, Dtype::bf16, Dtype::bf16).bytes);
  EXPECT_EQ(grouped_gemm_weight_gradient_cost(9, 1, 5, 7, Dtype::bf16, Dtype::f32).bytes,
            gemm_cost(5, 7, 9, Dtype::bf16, Dtype::f32).bytes);
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
  AttentionCostShape const shape{seq, seq, batch, heads, 2, dim, dim, 128.0 * 128.0, Dtype::bf16};
  double const per_token = 12.0 * static_cast<double>(heads * dim) * static_cast<double>(seq);
  EXPECT_EQ(attention_forward_cost(shape).flops + attention_backward_model_flops(shape),
            per_token * static_cast<double>(seq * batch));
  EXPECT_EQ(attention_backward_cost(shape).flops, 2.5 * attention_forward_cost(shape).flops);
}

TEST(Cost, AttentionBytesKnowTheKvHeads) {
  AttentionCostShape shape{8, 8, 1, 4, 4, 16, 16, 64, Dtype::bf16};
  double const all = attention_forward_cost(shape).bytes;
  EXPECT_EQ(all, 2.0 * 4 * (8 * 4 * 16) + 4.0 * 8 * 4);
  shape.kv_heads = 1;
  EXPECT_EQ(all - attention_forward_cost(shape).bytes, 2.0 * 2 * 8 * 3 * 16);
}

TEST(Cost, MemoryBoundOpsCountTheirTensors) {
  EXPECT_EQ(add_cost(10, Dtype::bf16).bytes, 60);
  EXPECT_EQ(norm_forward_cost(2, 8, Dtype::bf16, false, true).bytes, 4 * 2 * 16 + 4 * 2);
  EXPECT_EQ(activation_forward_cost(2, 8, Dtype::f32, true).bytes, 4 * 3 * 16);
  EXPECT_EQ(adamw_cost(1, Dtype::bf16, Dtype::f32, true).bytes, 2 + 8 + 4 + 16);
  EXPECT_EQ(adamw_cost(1, Dtype::f32, Dtype::f32, false).bytes, 8 + 4 + 16);
  EXPECT_EQ(copy_block_cost(3, 4, Dtype::f32, Dtype::bf16).bytes, 72);
  EXPECT_EQ((2 * add_cost(10, Dtype::f32) + add_cost(1, Dtype::f32)).bytes, 252);
}

}  // namespace
}  // namespace shardbench
