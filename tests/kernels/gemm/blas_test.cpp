#include <gtest/gtest.h>

#include "kernels/gemm/blas_host.hpp"
#include "tests/kernels/compare.hpp"

namespace shardbench::test {
namespace {

TEST(Blas, SaysWhatItIs) {
  std::string const description = blas_description();
  EXPECT_GE(description.size(), 4u);
  EXPECT_EQ(description.find('\n'), std::string::npos);
}

#if defined(__x86_64__)
TEST(Blas, OpenblasUsesTheVectorsOfThisCpu) {
  std::string const description = blas_description();
  if (!description.starts_with("OpenBLAS") || !__builtin_cpu_supports("avx2")) GTEST_SKIP();
  for (char const* const old : {"Prescott", "Core2", "Penryn", "Dunnington", "Nehalem", "Generic", "generic"}) {
    EXPECT_FALSE(description.ends_with(old)) << description;
  }
}
#endif

TEST(Blas, OneRowReadsEveryLayout) {
  // The same product through the one-row path and as the first of two rows.
  constexpr std::int64_t n = 37, k = 29;
  Tensor const a = Tensor::random(Dtype::f32, 2 * k, 1), b = Tensor::random(Dtype::f32, n * k, 2);
  for (int flags = 0; flags < 4; ++flags) {
    bool const transpose_a = (flags & 1) != 0, transpose_b = (flags & 2) != 0;
    GemmArgs args{.a = a.data(), .b = b.data(), .m = 2, .n = n, .k = k, .lda = transpose_a ? 2 : k};
    args.ldb = transpose_b ? k : n;
    args.ldc = n;
    args.transpose_a = transpose_a;
    args.transpose_b = transpose_b;
    Tensor two(Dtype::f32, 2 * n), one(Dtype::f32, n), first(Dtype::f32, n);
    args.c = two.data();
    run(host_kernels().gemm, args);
    args.m = 1;
    args.c = one.data();
    run(host_kernels().gemm, args);
    for (std::int64_t j = 0; j < n; ++j) first.set(j, two.at(j));
    EXPECT_TRUE(close(one, first, tolerance(Dtype::f32, k)));
  }
}

}  // namespace
}  // namespace shardbench::test
