// Products of 8-bit matrices with a scale each, against the reference's loops over the same 8-bit values.
#include "tests/kernels/compare.hpp"
#include "tests/kernels_cuda/gpu.hpp"

namespace shardbench::test {
namespace {

struct Fp8Case {
  std::int64_t m, n, k;
  Dtype a, b, out;
  bool bias;
};

constexpr Fp8Case cases[] = {
    {16, 16, 16, Dtype::fp8, Dtype::fp8, Dtype::f32, false},
    {48, 32, 144, Dtype::fp8, Dtype::fp8, Dtype::bf16, true},
    {64, 128, 256, Dtype::fp8_e5m2, Dtype::fp8, Dtype::bf16, false},
    {32, 80, 512, Dtype::fp8, Dtype::fp8_e5m2, Dtype::bf16, false},
};

class Fp8Gemm : public GpuTest {
 protected:
  void TearDown() override {
    for (void* const memory : memory_) device_.deallocate(memory);
    GpuTest::TearDown();
  }
  void* on_gpu(Tensor const& tensor) {
    std::size_t const bytes = static_cast<std::size_t>(tensor.count()) * bytes_of(tensor.dtype());
    memory_.push_back(device_.allocate(bytes));
    device_.copy_from_host(memory_.back(), tensor.data(), bytes, *stream_);
    stream_->synchronize();
    return memory_.back();
  }
  /// The product on the GPU; false when this GPU has no fp8.
  bool multiply(GemmArgs args, Tensor& c, Tensor const& a, Tensor const& b, Tensor const& bias, Tensor const& scales) {
    args.a = on_gpu(a);
    args.b = on_gpu(b);
    args.c = on_gpu(c);
    args.bias = args.bias ? on_gpu(bias) : nullptr;
    args.scale_a = static_cast<float const*>(on_gpu(scales));
    args.scale_b = args.scale_a + 1;
    try {
      device_.kernels().gemm(*stream_, args);
    } catch (Error const& error) {
      if (std::string(error.what()).find("no algorithm") == std::string::npos) throw;
      return false;
    }
    device_.copy_to_host(c.data(), args.c, static_cast<std::size_t>(c.count()) * bytes_of(c.dtype()), *stream_);
    stream_->synchronize();
    return true;
  }

 private:
  std::vector<void*> memory_;
};

GemmArgs args_of(Fp8Case const& c) {
  GemmArgs args{.m = c.m, .n = c.n, .k = c.k, .lda = c.k, .ldb = c.k, .ldc = c.n, .transpose_b = true};
  args.input_dtype = c.a;
  args.b_dtype = c.b;
  args.output_dtype = c.out;
  return args;
}

TEST_F(Fp8Gemm, EqualsReferenceOverTheSameValues) {
  for (Fp8Case const& c : cases) {
    Tensor a = Tensor::random(c.a, c.m * c.k, 1, 8), b = Tensor::random(c.b, c.n * c.k, 2, 8);
    Tensor bias = Tensor::random(c.out, c.n, 3), scales(Dtype::f32, 2), actual(c.out, c.m * c.n), expected = actual;
    scales.set(0, 0.125), scales.set(1, 0.37);
    GemmArgs args = args_of(c);
    args.bias = c.bias ? bias.data() : nullptr;
    if (!multiply(args, actual, a, b, bias, scales)) GTEST_SKIP() << "this GPU has no fp8 products";
    args.a = a.data(), args.b = b.data(), args.c = expected.data();
    args.scale_a = scales.floats(), args.scale_b = scales.floats() + 1;
    run(reference_kernels().gemm, args);
    EXPECT_TRUE(close(actual, expected, tolerance(c.out, 16 * c.k))) << c.m << 'x' << c.n << 'x' << c.k;
  }
}

TEST_F(Fp8Gemm, WhatCublasLtCannotDoIsRefusedInWords) {
  Tensor const values = Tensor::random(Dtype::fp8, 32 * 32, 1);
  Tensor out(Dtype::bf16, 32 * 32);
  auto const refusal = [&](Fp8Case const& c, bool transpose_b, bool scaled) -> std::string {
    GemmArgs args = args_of(c);
    args.transpose_b = transpose_b;
    args.a = args.b = on_gpu(values);
    args.c = on_gpu(out);
    Tensor scale(Dtype::f32, 1);
    if (scaled) args.scale_a = static_cast<float const*>(on_gpu(scale));
    try {
      device_.kernels().gemm(*stream_, args);
    } catch (Error const& error) {
      return error.what();
    }
    return {};
  };
  auto const contains = [](std::string const& text, char const* part) { return text.find(part) != text.npos; };
  EXPECT_TRUE(contains(refusal({16, 16, 16, Dtype::fp8, Dtype::fp8, Dtype::bf16, false}, false, false), "[n,k]"));
  EXPECT_TRUE(contains(refusal({16, 24, 16, Dtype::fp8, Dtype::fp8, Dtype::bf16, false}, true, false), "16x24x16"));
  EXPECT_TRUE(
      contains(refusal({16, 16, 16, Dtype::fp8_e5m2, Dtype::fp8_e5m2, Dtype::bf16, false}, true, false), "e5m2"));
  EXPECT_TRUE(contains(refusal({16, 16, 16, Dtype::bf16, Dtype::bf16, Dtype::bf16, false}, true, true), "scales"));
}

}  // namespace
}  // namespace shardbench::test
