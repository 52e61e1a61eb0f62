#include "tests/kernels/compare.hpp"

namespace shardbench::test {
namespace {

struct Problem {
  LatentKeyShape shape;
  Tensor plain, rotary, dkeys;

  Problem(Dtype dtype, std::int64_t rows, std::int64_t heads, std::int64_t plain_dim, std::int64_t rotary_dim,
          std::int64_t gap)
      : shape{rows, heads, plain_dim, rotary_dim, heads * plain_dim + gap, rotary_dim + gap, dtype},
        plain(Tensor::random(dtype, rows * shape.plain_stride, 1)),
        rotary(Tensor::random(dtype, rows * shape.rotary_stride, 2)),
        dkeys(Tensor::random(dtype, rows * heads * shape.key_dim(), 3)) {}

  Tensor join(KernelSet const& kernels) const {
    Tensor keys(shape.dtype, dkeys.count());
    run(kernels.join_keys, JoinKeysArgs{shape, plain.data(), rotary.data(), keys.data()});
    return keys;
  }
  struct Gradients {
    Tensor dplain, drotary;
  };
  Gradients split(KernelSet const& kernels) const {
    Gradients g{Tensor(shape.dtype, plain.count()), Tensor(shape.dtype, rotary.count())};
    run(kernels.split_keys, SplitKeysArgs{shape, dkeys.data(), g.dplain.data(), g.drotary.data()});
    return g;
  }
};

TEST(LatentKeys, HostEqualsReference) {
  for (Dtype const dtype : storage_dtypes)
    for (Problem const& p :
         {Problem(dtype, 5, 3, 7, 4, 3), Problem(dtype, 6, 2, 16, 8, 0), Problem(dtype, 1, 1, 8, 8, 8)}) {
      EXPECT_TRUE(close(p.join(host_kernels()), p.join(reference_kernels()), 0));
      auto const actual = p.split(host_kernels()), expected = p.split(reference_kernels());
      std::int64_t const gap = p.shape.rotary_stride - p.shape.rotary_dim;
      EXPECT_TRUE(close(actual.dplain, expected.dplain, 0, p.shape.rows * gap));
      EXPECT_TRUE(close(actual.drotary, expected.drotary, tolerance(dtype, p.shape.heads), p.shape.rows * gap));
    }
}

// <split(dkeys), (plain, rotary)> = <dkeys, join(plain, rotary)>: one is the transpose of the other.
TEST(LatentKeys, SplitIsTheTransposeOfJoin) {
  Problem const p(Dtype::f32, 4, 3, 5, 2, 0);
  auto const g = p.split(host_kernels());
  EXPECT_NEAR(inner_product(g.dplain, p.plain) + inner_product(g.drotary, p.rotary),
              inner_product(p.dkeys, p.join(host_kernels())), 1e-4);
}

TEST(LatentKeys, NoRowsDoNothing) {
  Problem const p(Dtype::f32, 0, 3, 5, 2, 0);
  EXPECT_EQ(p.join(host_kernels()).count(), 0);
  EXPECT_EQ(p.split(host_kernels()).dplain.count(), 0);
}

}  // namespace
}  // namespace shardbench::test
