#include "tests/kernels/compare.hpp"

namespace shardbench::test {
namespace {

struct Case {
  std::int64_t m, n, k;
};

// Odd sizes, one row, tails beyond a tile of the widened path (512 x 1024 x 512), and no depth at all.
constexpr Case cases[] = {{1, 1, 1},     {7, 5, 3},    {1, 33, 64},   {65, 1, 17}, {64, 48, 0},
                          {33, 130, 65}, {520, 9, 11}, {3, 1030, 20}, {5, 6, 1037}};

struct Problem {
  GemmArgs args;
  Tensor a, b, bias, start;

  Problem(Case size, bool transpose_a, bool transpose_b, Dtype in, Dtype out, bool with_bias, float beta)
      : a(Tensor::random(in, std::max(size.m, size.k) * (std::max(size.m, size.k) + 3), 1)),
        b(Tensor::random(in, std::max(size.n, size.k) * (std::max(size.n, size.k) + 3), 2)),
        bias(Tensor::random(in, size.n, 3)),
        start(out, size.m * (size.n + 2)) {
    args.a = a.data();
    args.b = b.data();
    args.bias = with_bias ? bias.data() : nullptr;
    args.m = size.m;
    args.n = size.n;
    args.k = size.k;
    args.lda = (transpose_a ? size.m : size.k) + 3;
    args.ldb = (transpose_b ? size.k : size.n) + 1;
    args.ldc = size.n + 2;
    args.transpose_a = transpose_a;
    args.transpose_b = transpose_b;
    args.beta = beta;
    args.input_dtype = in;
    args.output_dtype = out;
    if (beta == 0) return;
    for (std::int64_t i = 0; i < size.m; ++i) {
      for (std::int64_t j = 0; j < size.n; ++j) {
        auto const counter = static_cast<std::uint64_t>(i * size.n + j);
        start.set(i * args.ldc + j, static_cast<double>(random_normal(9, counter)));
      }
    }
  }
  Tensor compute(KernelSet const& kernels) {
    Tensor c = start;
    args.c = c.data();
    run(kernels.gemm, args);
    return c;
  }
};

TEST(Gemm, HostEqualsReference) {
  for (Case const size : cases) {
    for (int flags = 0; flags < 4; ++flags) {
      for (Dtype const in : storage_dtypes) {
        for (Dtype const out : storage_dtypes) {
          if (in == Dtype::f32 && out == Dtype::bf16 && host_kernels().name != "host") continue;  // cuBLASLt has none
          for (float const beta : {0.0f, 1.0f, 0.5f}) {
            bool const with_bias = beta != 1.0f || size.k == 0;
            Problem problem(size, (flags & 1) != 0, (flags & 2) != 0, in, out, with_bias, beta);
            EXPECT_TRUE(close(problem.compute(host_kernels()), problem.compute(reference_kernels()),
                              tolerance(out, size.k), 2 * size.m))
                << size.m << 'x' << size.n << 'x' << size.k << " transposes " << flags << ' ' << to_string(in) << " to "
                << to_string(out) << " beta " << beta;
          }
        }
      }
    }
  }
}

TEST(Gemm, ReferenceKnowsASmallProduct) {
  Tensor a(Dtype::f32, 4), b(Dtype::f32, 4), c(Dtype::f32, 4);
  for (std::int64_t i = 0; i < 4; ++i) {
    a.set(i, static_cast<double>(i + 1));
    b.set(i, static_cast<double>(i + 5));
  }
  GemmArgs args{.a = a.data(), .b = b.data(), .c = c.data(), .m = 2, .n = 2, .k = 2, .lda = 2, .ldb = 2, .ldc = 2};
  run(reference_kernels().gemm, args);
  EXPECT_EQ(c.at(0), 19);
  EXPECT_EQ(c.at(1), 22);
  EXPECT_EQ(c.at(2), 43);
  EXPECT_EQ(c.at(3), 50);
}

TEST(Gemm, EmptyProductsTouchNothing) {
  Tensor c(Dtype::f32, 4);
  GemmArgs args{.c = c.data(), .m = 0, .n = 4, .k = 2, .lda = 2, .ldb = 4, .ldc = 4};
  run(host_kernels().gemm, args);
  args = {.c = c.data(), .m = 4, .n = 0, .k = 2, .lda = 2, .ldb = 1, .ldc = 1};
  run(host_kernels().gemm, args);
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_TRUE(std::isnan(c.at(i)));
}

TEST(Gemm, RefusesOtherDtypes) {
  GemmArgs args{.m = 1, .n = 1, .k = 1, .lda = 1, .ldb = 1, .ldc = 1, .input_dtype = Dtype::f64};
  EXPECT_THROW(run(host_kernels().gemm, args), Error);
}

TEST(GroupedGemm, HostEqualsReference) {
  std::int32_t const offsets[] = {0, 5, 5, 18, 19};  // one group is empty
  for (Dtype const dtype : storage_dtypes) {
    for (int flags = 0; flags < 4; ++flags) {
      bool const weight_gradient = (flags & 1) != 0;
      bool const transpose_b = (flags & 2) != 0;
      std::int64_t const m = 7, n = 9, k = 11, rows = 19, groups = 4;
      Tensor const a = Tensor::random(dtype, rows * (weight_gradient ? m : k), 1);
      Tensor const b = Tensor::random(dtype, weight_gradient ? rows * n : groups * k * n, 2);
      GroupedGemmArgs args{.a = a.data(), .b = b.data(), .offsets = offsets, .groups = groups};
      args.m = m;
      args.n = n;
      args.k = k;
      args.transpose_b = transpose_b;
      args.weight_gradient = weight_gradient;
      args.input_dtype = dtype;
      Tensor actual(Dtype::f32, weight_gradient ? groups * m * n : rows * n), expected = actual;
      args.c = actual.data();
      run(host_kernels().grouped_gemm, args);
      args.c = expected.data();
      run(reference_kernels().grouped_gemm, args);
      EXPECT_TRUE(close(actual, expected, tolerance(Dtype::f32, rows)));
    }
  }
}

/// y = x W^T with the depth cut in parts, each rounded to the dtype and then added, as a row-parallel product is.
Tensor product_of_parts(Tensor const& x, Tensor const& w, std::int64_t m, std::int64_t n, std::int64_t k,
                        std::int64_t parts) {
  Dtype const dtype = x.dtype();
  auto const begin = [&](Tensor const& t, std::int64_t p) {
    return static_cast<std::byte const*>(t.data()) + p * (k / parts) * static_cast<std::int64_t>(bytes_of(dtype));
  };
  Tensor sum(dtype, m * n), part = sum;
  for (std::int64_t p = 0; p < parts; ++p) {
    GemmArgs args;
    args.a = begin(x, p);
    args.b = begin(w, p);
    args.c = p == 0 ? sum.data() : part.data();
    args.m = m, args.n = n, args.k = k / parts;
    args.lda = args.ldb = k, args.ldc = n;
    args.transpose_b = true;
    args.input_dtype = args.output_dtype = dtype;
    run(host_kernels().gemm, args);
    if (p > 0) run(host_kernels().add, AddArgs{sum.data(), part.data(), sum.data(), m * n, 1, dtype});
  }
  return sum;
}

// Case N05: another order of summation moves a bf16 result by a few roundings, and by nothing where all is exact.
TEST(Gemm, N05RowParallelProductsDifferByRoundingOnly) {
  constexpr std::int64_t m = 4, n = 8, k = 4096;
  Tensor const x = Tensor::random(Dtype::bf16, m * k, 1), w = Tensor::random(Dtype::bf16, n * k, 2);
  for (std::int64_t const tp : {2, 4}) {
    Tensor const whole = product_of_parts(x, w, m, n, k, 1), cut = product_of_parts(x, w, m, n, k, tp);
    EXPECT_TRUE(close(cut, whole, unit_roundoff(Dtype::bf16) * std::sqrt(static_cast<double>(tp)) * 1.5));
    Tensor const x32 = Tensor::random(Dtype::f32, m * k, 1), w32 = Tensor::random(Dtype::f32, n * k, 2);
    EXPECT_TRUE(close(product_of_parts(x32, w32, m, n, k, tp), product_of_parts(x32, w32, m, n, k, 1), 1e-5));
  }
  Tensor ones(Dtype::bf16, m * k), twos(Dtype::bf16, n * k);
  for (std::int64_t i = 0; i < ones.count(); ++i) ones.set(i, i % 64 == 0 ? 1 : 0);
  for (std::int64_t i = 0; i < twos.count(); ++i) twos.set(i, 2);
  Tensor const whole = product_of_parts(ones, twos, m, n, k, 1), cut = product_of_parts(ones, twos, m, n, k, 2);
  for (std::int64_t i = 0; i < whole.count(); ++i) EXPECT_EQ(cut.at(i), whole.at(i));
}

}  // namespace
}  // namespace shardbench::test
