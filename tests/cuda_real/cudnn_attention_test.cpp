// cuDNN's fused attention against the reference, where this build and this machine have it.
#include "kernels/attention/attention_cudnn_cuda.hpp"
#include "kernels/kernel_set_cuda.hpp"
#include "tests/kernels/compare.hpp"
#include "tests/kernels_cuda/gpu.hpp"

namespace shardbench::test {
namespace {

struct Case {
  std::int64_t seq, batch, heads, kv_heads, dim;
  AttentionMask mask;
};

constexpr Case cases[] = {
    {64, 2, 4, 4, 64, AttentionMask::causal},
    {200, 1, 8, 2, 64, AttentionMask::causal},
    {128, 2, 4, 1, 128, AttentionMask::none},
    {333, 1, 2, 2, 128, AttentionMask::causal},
};

using CudnnAttention = GpuTest;

TEST_F(CudnnAttention, EqualsReference) {
  if (std::string const problem = cuda::cudnn_problem(); !problem.empty()) GTEST_SKIP() << problem;
  for (Case const& c : cases) {
    AttentionShape shape{.seq_q = c.seq, .seq_k = c.seq, .batch = c.batch, .heads = c.heads, .kv_heads = c.kv_heads};
    shape.head_dim = shape.value_dim = c.dim;
    shape.scale = 1.0f / std::sqrt(static_cast<float>(c.dim));
    shape.mask = c.mask;
    shape.dtype = Dtype::bf16;
    std::int64_t const rows = c.seq * c.batch, q_cols = c.heads * c.dim, kv_cols = c.kv_heads * c.dim;
    Tensor q = Tensor::random(Dtype::bf16, rows * q_cols, 1), k = Tensor::random(Dtype::bf16, rows * kv_cols, 2);
    Tensor v = Tensor::random(Dtype::bf16, rows * kv_cols, 3), dout = Tensor::random(Dtype::bf16, rows * q_cols, 4);
    struct Results {
      Tensor out, stats, dq, dk, dv;
    };
    Results const empty{Tensor(Dtype::bf16, rows * q_cols), Tensor(Dtype::f32, c.batch * c.heads * c.seq),
                        Tensor(Dtype::bf16, rows * q_cols), Tensor(Dtype::bf16, rows * kv_cols),
                        Tensor(Dtype::bf16, rows * kv_cols)};
    auto const compute = [&](KernelSet const& kernels, Stream& stream) {
      Results r = empty;
      kernels.attention_forward(stream, {.shape = shape,
                                         .q = {q.data(), q_cols},
                                         .k = {k.data(), kv_cols},
                                         .v = {v.data(), kv_cols},
                                         .out = {r.out.data(), q_cols},
                                         .log_sum_exp = r.stats.floats()});
      kernels.attention_backward(stream, {.shape = shape,
                                          .q = {q.data(), q_cols},
                                          .k = {k.data(), kv_cols},
                                          .v = {v.data(), kv_cols},
                                          .out = {r.out.data(), q_cols},
                                          .dout = {dout.data(), q_cols},
                                          .dq = {r.dq.data(), q_cols},
                                          .dk = {r.dk.data(), kv_cols},
                                          .dv = {r.dv.data(), kv_cols},
                                          .log_sum_exp = r.stats.floats()});
      stream.synchronize();
      return r;
    };
    InlineStream inline_stream;
    Results const expected = compute(reference_kernels(), inline_stream);
    Results const actual = compute(cuda_kernels_with_cudnn(), *stream_);
    // Weights and score gradients are rounded to bf16 before their products, and the output before the backward pass.
    double const limit = tolerance(Dtype::bf16, 8 * c.seq) + 4 * unit_roundoff(Dtype::bf16);
    EXPECT_TRUE(close(actual.out, expected.out, limit)) << c.seq;
    EXPECT_TRUE(close(actual.stats, expected.stats, 1e-3)) << c.seq;
    EXPECT_TRUE(close(actual.dq, expected.dq, limit)) << c.seq;
    EXPECT_TRUE(close(actual.dk, expected.dk, limit)) << c.seq;
    EXPECT_TRUE(close(actual.dv, expected.dv, limit)) << c.seq;
  }
}

TEST_F(CudnnAttention, WhatItCannotDoIsRefusedInWords) {
  if (std::string const problem = cuda::cudnn_problem(); !problem.empty()) GTEST_SKIP() << problem;
  AttentionShape shape{
      .seq_q = 16, .seq_k = 16, .batch = 1, .heads = 1, .kv_heads = 1, .head_dim = 64, .value_dim = 64};
  AttentionForwardArgs args;
  args.shape = shape;
  EXPECT_THROW(cuda::cudnn_attention_forward(*stream_, args), IllegalConfig) << "fp32";
  args.shape.dtype = Dtype::bf16;
  args.shape.window = 4;
  EXPECT_THROW(cuda::cudnn_attention_forward(*stream_, args), IllegalConfig);
}

}  // namespace
}  // namespace shardbench::test
