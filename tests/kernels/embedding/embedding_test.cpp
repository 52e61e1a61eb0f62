#include "tests/kernels/compare.hpp"

namespace shardbench::test {
namespace {

std::vector<std::int32_t> random_ids(std::int64_t tokens, std::uint32_t vocab) {
  std::vector<std::int32_t> ids;
  for (std::int64_t t = 0; t < tokens; ++t) {
    ids.push_back(static_cast<std::int32_t>(random_bits(3, static_cast<std::uint64_t>(t)) % vocab));
  }
  return ids;
}

constexpr std::int64_t tokens = 37, cols = 19, vocab = 20;

Tensor forward(KernelSet const& kernels, Tensor const& weight, std::int64_t first_row, std::int64_t rows, Tensor out,
               bool accumulate, float scale = 1) {
  std::vector<std::int32_t> const ids = random_ids(tokens, vocab);
  EmbeddingForwardArgs args{ids.data(), weight.data(), out.data(), tokens, rows, cols, first_row};
  args.accumulate = accumulate;
  args.dtype = weight.dtype();
  args.scale = scale;
  run(kernels.embedding_forward, args);
  return out;
}

Tensor backward(KernelSet const& kernels, Tensor const& dout, std::int64_t first_row, std::int64_t rows, Tensor dweight,
                bool accumulate, float scale = 1) {
  std::vector<std::int32_t> const ids = random_ids(tokens, vocab);
  EmbeddingBackwardArgs args{ids.data(), dout.data(), dweight.floats(), tokens, rows, cols, first_row};
  args.accumulate = accumulate;
  args.dtype = dout.dtype();
  args.scale = scale;
  run(kernels.embedding_backward, args);
  return dweight;
}

TEST(Embedding, HostEqualsReference) {
  for (Dtype const dtype : storage_dtypes) {
    Tensor const weight = Tensor::random(dtype, vocab * cols, 1), dout = Tensor::random(dtype, tokens * cols, 2);
    Tensor const shard = Tensor::random(dtype, 12 * cols, 4), start = Tensor::random(dtype, tokens * cols, 5);
    for (bool const accumulate : {false, true}) {
      Tensor const out = accumulate ? start : Tensor(dtype, tokens * cols);
      EXPECT_TRUE(close(forward(host_kernels(), weight, 0, vocab, out, accumulate),
                        forward(reference_kernels(), weight, 0, vocab, out, accumulate), tolerance(dtype)));
      EXPECT_TRUE(close(forward(host_kernels(), shard, 8, 12, out, accumulate, 7.5f),
                        forward(reference_kernels(), shard, 8, 12, out, accumulate, 7.5f), tolerance(dtype)));
      Tensor const sums = accumulate ? Tensor::random(Dtype::f32, vocab * cols, 6) : Tensor(Dtype::f32, vocab * cols);
      EXPECT_TRUE(close(backward(host_kernels(), dout, 0, vocab, sums, accumulate),
                        backward(reference_kernels(), dout, 0, vocab, sums, accumulate), tolerance(Dtype::f32, 8)));
      EXPECT_TRUE(close(backward(host_kernels(), dout, 0, vocab, sums, accumulate, 7.5f),
                        backward(reference_kernels(), dout, 0, vocab, sums, accumulate, 7.5f),
                        tolerance(Dtype::f32, 8)));
    }
  }
}

TEST(Embedding, ShardsAddUpToTheWhole) {
  Tensor const weight = Tensor::random(Dtype::f32, vocab * cols, 1);
  Tensor low(Dtype::f32, 8 * cols), high(Dtype::f32, 12 * cols);
  for (std::int64_t i = 0; i < 8 * cols; ++i) low.set(i, weight.at(i));
  for (std::int64_t i = 0; i < 12 * cols; ++i) high.set(i, weight.at(8 * cols + i));
  Tensor const whole = forward(host_kernels(), weight, 0, vocab, Tensor(Dtype::f32, tokens * cols), false);
  Tensor const first = forward(host_kernels(), low, 0, 8, Tensor(Dtype::f32, tokens * cols), false);
  Tensor const both = forward(host_kernels(), high, 8, 12, first, true);
  for (std::int64_t i = 0; i < whole.count(); ++i) EXPECT_EQ(both.at(i), whole.at(i));
}

TEST(Embedding, BackwardIsTheDerivativeOfForward) {
  Tensor weight = Tensor::random(Dtype::f64, vocab * cols, 1);
  Tensor const dout = Tensor::random(Dtype::f32, tokens * cols, 2);
  auto const loss = [&] {
    return inner_product(forward(reference_kernels(), weight, 0, vocab, Tensor(Dtype::f64, tokens * cols), false),
                         dout);
  };
  EXPECT_TRUE(close(backward(host_kernels(), dout, 0, vocab, Tensor(Dtype::f32, vocab * cols), false),
                    finite_differences(weight, loss), gradient_tolerance));
}

}  // namespace
}  // namespace shardbench::test
