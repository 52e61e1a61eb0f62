// Attention over its tiles: any scratch size must give the same numbers.
#include "kernels/attention/attention_tiles_cuda.hpp"
#include "kernels/kernel_set_cuda.hpp"
#include "tests/kernels/compare.hpp"
#include "tests/kernels_cuda/gpu.hpp"

namespace shardbench::test {
namespace {

struct Case {
  char const* name;
  std::int64_t seq_q, seq_k, batch, heads, kv_heads, head_dim, value_dim;
  std::size_t scratch_bytes;
  AttentionMask mask = AttentionMask::causal;
  std::int64_t window = 0;
  float softcap = 0;
};

constexpr std::size_t ample = 1 << 20;
constexpr Case cases[] = {
    {"plain", 33, 33, 2, 3, 3, 8, 8, ample},
    {"grouped, two heads a tile", 40, 40, 2, 8, 4, 8, 6, 40 << 10},
    {"few queries a tile", 50, 50, 1, 2, 1, 16, 16, 12 << 10},
    {"many key tiles", 37, 300, 1, 2, 2, 16, 8, 16 << 10},
    {"key tiles under a window", 120, 120, 1, 1, 1, 8, 8, 6 << 10, AttentionMask::causal, 9},
    {"not causal", 21, 45, 1, 2, 2, 8, 8, ample, AttentionMask::none},
    {"softcap", 45, 45, 1, 2, 1, 8, 8, 10 << 10, AttentionMask::causal, 0, 2.0f},
    {"queries before every key", 12, 5, 1, 2, 2, 8, 8, ample},
    {"decode", 1, 77, 2, 4, 2, 16, 16, ample},
};

/// Weights and score gradients are rounded to the storage dtype before their products, as tensor cores want them.
double limit(Dtype dtype, Case const& c) {
  return tolerance(dtype, 4 * (c.seq_q + c.seq_k)) + (dtype == Dtype::bf16 ? 2 * unit_roundoff(Dtype::bf16) : 0.0);
}

struct Result {
  Tensor out, log_sum_exp, dq, dk, dv;
};

class AttentionTileTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    emulation::accept_host_memory(true);
  }

  static AttentionShape shape_of(Case const& c, Dtype dtype) {
    AttentionShape shape{.seq_q = c.seq_q,
                         .seq_k = c.seq_k,
                         .batch = c.batch,
                         .heads = c.heads,
                         .kv_heads = c.kv_heads,
                         .head_dim = c.head_dim,
                         .value_dim = c.value_dim};
    shape.scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
    shape.softcap = c.softcap;
    shape.window = c.window;
    shape.mask = c.mask;
    shape.dtype = dtype;
    return shape;
  }

  /// Forward and backward; `given` has the forward's results for the backward, or is null to use one's own.
  static Result compute(KernelSet const& kernels, Stream& stream, Case const& c, Dtype dtype, Result* given) {
    std::int64_t const q_cols = c.heads * c.head_dim, k_cols = c.kv_heads * c.head_dim;
    std::int64_t const v_cols = c.kv_heads * c.value_dim, out_cols = c.heads * c.value_dim;
    std::int64_t const q_rows = c.seq_q * c.batch, k_rows = c.seq_k * c.batch;
    Tensor q = Tensor::random(dtype, q_rows * q_cols, 1), k = Tensor::random(dtype, k_rows * k_cols, 2);
    Tensor v = Tensor::random(dtype, k_rows * v_cols, 3), dout = Tensor::random(dtype, q_rows * out_cols, 4);
    Result result{Tensor(dtype, q_rows * out_cols), Tensor(Dtype::f32, c.batch * c.heads * c.seq_q),
                  Tensor(dtype, q_rows * q_cols), Tensor(dtype, k_rows * k_cols), Tensor(dtype, k_rows * v_cols)};
    AttentionShape const shape = shape_of(c, dtype);
    kernels.attention_forward(stream, {.shape = shape,
                                       .q = {q.data(), q_cols},
                                       .k = {k.data(), k_cols},
                                       .v = {v.data(), v_cols},
                                       .out = {result.out.data(), out_cols},
                                       .log_sum_exp = result.log_sum_exp.floats()});
    Result& forward = given ? *given : result;
    kernels.attention_backward(stream, {.shape = shape,
                                        .q = {q.data(), q_cols},
                                        .k = {k.data(), k_cols},
                                        .v = {v.data(), v_cols},
                                        .out = {forward.out.data(), out_cols},
                                        .dout = {dout.data(), out_cols},
                                        .dq = {result.dq.data(), q_cols},
                                        .dk = {result.dk.data(), k_cols},
                                        .dv = {result.dv.data(), v_cols},
                                        .log_sum_exp = forward.log_sum_exp.floats()});
    stream.synchronize();
    return result;
  }
};

TEST_F(AttentionTileTest, EqualsReferenceWhateverTheTiles) {
  for (Case const& c : cases)
    for (Dtype const dtype : storage_dtypes) {
      InlineStream inline_stream;
      CudaStream stream(device_.context(), StreamKind::compute, 256 << 10, c.scratch_bytes);
      Result expected = compute(reference_kernels(), inline_stream, c, dtype, nullptr);
      Result const actual = compute(cuda_kernels(), stream, c, dtype, &expected);
      double const most = limit(dtype, c);
      EXPECT_TRUE(close(actual.out, expected.out, most)) << c.name << ' ' << to_string(dtype);
      EXPECT_TRUE(close(actual.log_sum_exp, expected.log_sum_exp, most)) << c.name << ' ' << to_string(dtype);
      EXPECT_TRUE(close(actual.dq, expected.dq, most)) << c.name << ' ' << to_string(dtype);
      EXPECT_TRUE(close(actual.dk, expected.dk, most)) << c.name << ' ' << to_string(dtype);
      EXPECT_TRUE(close(actual.dv, expected.dv, most)) << c.name << ' ' << to_string(dtype);
    }
}

TEST_F(AttentionTileTest, TilesFitTheScratchAndTheShape) {
  for (Case const& c : cases)
    for (Dtype const dtype : storage_dtypes) {
      AttentionShape const shape = shape_of(c, dtype);
      cuda::AttentionTiles const tiles = cuda::backward_tiles(shape, c.scratch_bytes);
      EXPECT_LE(tiles.queries, c.seq_q);
      EXPECT_LE(tiles.heads, c.kv_heads);
      EXPECT_LE(tiles.keys, c.seq_k);
      auto const scores = tiles.heads * tiles.queries * cuda::score_stride(tiles.keys) * (dtype == Dtype::f32 ? 8 : 12);
      auto const gradients = tiles.heads * tiles.keys * (c.head_dim + c.value_dim) * 4;
      EXPECT_LE(static_cast<std::size_t>(scores + gradients), c.scratch_bytes) << c.name;
    }
}

TEST_F(AttentionTileTest, ScratchTooSmallForOneRowIsAnError) {
  Case const c{"too small", 4, 4000, 1, 1, 1, 8, 8, 1 << 10};
  EXPECT_THROW(cuda::forward_tiles(shape_of(c, Dtype::f32), c.scratch_bytes), Error);
}

TEST_F(AttentionTileTest, CausalTilesSkipKeysThatNobodySees) {
  AttentionShape shape = shape_of(cases[0], Dtype::f32);
  shape.seq_q = 10;
  shape.seq_k = 30;
  cuda::TokenRange keys = cuda::visible_keys(shape, {0, 4});
  EXPECT_EQ(keys.begin, 0);
  EXPECT_EQ(keys.end, 24);
  shape.window = 3;
  keys = cuda::visible_keys(shape, {5, 10});
  EXPECT_EQ(keys.begin, 23);
  EXPECT_EQ(keys.end, 30);
  std::int32_t const positions[30] = {};
  shape.k_positions = positions;
  EXPECT_EQ(cuda::visible_keys(shape, {5, 10}).size(), 30);
}

}  // namespace
}  // namespace shardbench::test
