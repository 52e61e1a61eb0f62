#include <algorithm>
#include <numeric>

#include "tests/kernels/compare.hpp"

namespace shardbench::test {
namespace {

using Ints = std::vector<std::int32_t>;

/// top_k distinct experts a token, some far more often than others.
Ints choices(std::int64_t tokens, std::int64_t top_k, std::int64_t experts) {
  Ints indices;
  for (std::int64_t t = 0; t < tokens; ++t) {
    auto const bits = random_bits(5, static_cast<std::uint64_t>(t));
    auto const first = static_cast<std::int64_t>(std::min(bits % 97, bits / 97 % 97)) % experts;
    for (std::int64_t j = 0; j < top_k; ++j) indices.push_back(static_cast<std::int32_t>((first + j * 3) % experts));
  }
  return indices;
}

struct Plan {
  Ints rows, counts;
  std::int64_t sorted() const { return std::accumulate(counts.begin(), counts.end(), std::int64_t{0}); }
  bool operator==(Plan const&) const = default;
};

Plan plan_rows(KernelSet const& kernels, Ints const& indices, ExpertRowsArgs args) {
  Plan p{Ints(indices.size() * static_cast<std::size_t>(args.copies), -7),
         Ints(static_cast<std::size_t>(args.experts * args.copies), -7)};
  args.indices = indices.data();
  args.rows = p.rows.data(), args.counts = p.counts.data();
  args.tokens = static_cast<std::int64_t>(indices.size()) / args.top_k;
  run(kernels.expert_rows, args);
  return p;
}

ExpertRowsArgs shape(std::int64_t top_k, std::int64_t experts, std::int64_t ranks, std::int64_t copies,
                     std::int64_t capacity) {
  ExpertRowsArgs args;
  args.top_k = top_k, args.experts = experts, args.ranks = ranks, args.copies = copies, args.capacity = capacity;
  return args;
}

TEST(ExpertRows, HostEqualsReference) {
  for (std::int64_t const tokens : {0, 1, 37, 300})
    for (ExpertRowsArgs args : {shape(1, 7, 1, 1, 0), shape(2, 7, 7, 1, 0), shape(2, 8, 2, 2, 0), shape(2, 8, 4, 1, 5),
                                shape(2, 8, 2, 3, 9)}) {
      Ints const indices = choices(tokens, args.top_k, args.experts);
      EXPECT_EQ(plan_rows(host_kernels(), indices, args), plan_rows(reference_kernels(), indices, args));
      Ints const before(static_cast<std::size_t>(3 * args.experts), 2);
      args.before = before.data(), args.earlier = 2;
      EXPECT_EQ(plan_rows(host_kernels(), indices, args), plan_rows(reference_kernels(), indices, args));
      Ints const from{20, 300, 0};
      args.from = from.data(), args.earlier = 3;
      EXPECT_EQ(plan_rows(host_kernels(), indices, args), plan_rows(reference_kernels(), indices, args));
    }
}

TEST(ExpertRows, SortsByRankCopyAndExpertInTheOrderOfTokens) {
  // Two ranks of two experts each, two copies: rank 0 copy 0 experts 0, 1; rank 0 copy 1; rank 1 ...
  Plan const p = plan_rows(host_kernels(), {3, 0, 0, 1, 3}, shape(1, 4, 2, 2, 0));
  EXPECT_EQ(p.counts, (Ints{2, 1, 2, 1, 0, 2, 0, 2}));
  EXPECT_EQ(p.rows, (Ints{6, 8, 0, 3, 1, 4, 2, 5, 7, 9}));
}

TEST(ExpertRows, TokensBeyondTheCapacityAreDroppedInOrder) {
  ExpertRowsArgs args = shape(1, 2, 1, 1, 2);
  EXPECT_EQ(plan_rows(host_kernels(), {0, 0, 1, 0}, args).rows, (Ints{0, 1, 2, -1}));
  Ints const before{1, 2};  // what ranks with earlier tokens took
  args.before = before.data(), args.earlier = 1;
  Plan const p = plan_rows(host_kernels(), {0, 0, 1, 0}, args);
  EXPECT_EQ(p.rows, (Ints{0, -1, -1, -1}));
  EXPECT_EQ(p.counts, (Ints{1, 0}));
  // The same piece between the second and the third token, then behind them all.
  Ints from{2};
  args.from = from.data();
  EXPECT_EQ(plan_rows(host_kernels(), {0, 0, 1, 0}, args).rows, (Ints{0, 1, -1, -1}));
  from[0] = 4;
  EXPECT_EQ(plan_rows(host_kernels(), {0, 0, 1, 0}, args).rows, (Ints{0, 1, 2, -1}));
}

TEST(SourceRows, HostEqualsReference) {
  Ints const counts{3, 0, 2, 1, 4, 0, 0, 5, 70, 1, 0, 2};
  for (std::int64_t const experts : {1, 3, 4, 12}) {
    Ints ours(88, -7), theirs = ours;
    SourceRowsArgs args{counts.data(), ours.data(), 12 / experts, experts, 88};
    run(host_kernels().source_rows, args);
    args.rows = theirs.data();
    run(reference_kernels().source_rows, args);
    EXPECT_EQ(ours, theirs);
    Ints sorted = ours;
    std::ranges::sort(sorted);
    for (std::int32_t r = 0; r < 88; ++r) ASSERT_EQ(sorted[static_cast<std::size_t>(r)], r) << "a permutation";
  }
  Ints rows(7, -7);
  Ints const small{2, 1, 1, 3};  // rows by (source, expert): a a b | c d d d
  run(host_kernels().source_rows, SourceRowsArgs{small.data(), rows.data(), 2, 2, 7});
  EXPECT_EQ(rows, (Ints{0, 1, 3, 2, 4, 5, 6}));
}

struct Moved {
  Tensor sorted, back, dweights;
};

Moved move_all(KernelSet const& kernels, Plan const& plan, Tensor const& x, Tensor& weights, std::int64_t top_k,
               std::int64_t copies, std::int64_t cols) {
  std::int64_t const tokens = x.count() / cols, rows = plan.sorted();
  Dtype const dtype = x.dtype();
  Moved m{Tensor(dtype, rows * cols), Tensor(dtype, tokens * cols), Tensor(Dtype::f32, tokens * top_k)};
  run(kernels.permute, PermuteArgs{x.data(), plan.rows.data(), weights.floats(), m.sorted.data(), tokens,
                                   top_k * copies, copies, cols, rows, dtype});
  run(kernels.unpermute, UnpermuteArgs{m.sorted.data(), plan.rows.data(), weights.floats(), m.back.data(), tokens,
                                       top_k * copies, copies, cols, rows, dtype});
  run(kernels.combine_weights, CombineWeightsArgs{x.data(), m.sorted.data(), plan.rows.data(), m.dweights.floats(),
                                                  tokens, top_k * copies, copies, cols, rows, dtype});
  return m;
}

TEST(Permute, HostEqualsReference) {
  for (std::int64_t const cols : {1, 13, 48})
    for (std::int64_t const copies : {1, 2})
      for (std::int64_t const capacity : {0, 6})
        for (Dtype const dtype : storage_dtypes) {
          Plan const plan = plan_rows(reference_kernels(), choices(29, 3, 8), shape(3, 8, 4, copies, capacity));
          Tensor const x = Tensor::random(dtype, 29 * cols, 1);
          Tensor weights = Tensor::random(Dtype::f32, 29 * 3, 2);
          Moved const ours = move_all(host_kernels(), plan, x, weights, 3, copies, cols);
          Moved const theirs = move_all(reference_kernels(), plan, x, weights, 3, copies, cols);
          EXPECT_TRUE(close(ours.sorted, theirs.sorted, tolerance(dtype)));
          EXPECT_TRUE(close(ours.back, theirs.back, 2 * tolerance(dtype, 6)));
          EXPECT_TRUE(close(ours.dweights, theirs.dweights, 4 * tolerance(dtype, cols)));
        }
}

TEST(Permute, ThereAndBackIsTheSumOfTheCopies) {
  std::int64_t const tokens = 20, cols = 8;
  Plan const plan = plan_rows(host_kernels(), choices(tokens, 2, 8), shape(2, 8, 2, 2, 0));
  Tensor const x = Tensor::random(Dtype::f32, tokens * cols, 1);
  Tensor sorted(Dtype::f32, plan.sorted() * cols), back(Dtype::f32, tokens * cols);
  EXPECT_EQ(plan.sorted(), tokens * 2 * 2);
  run(host_kernels().permute,
      PermuteArgs{x.data(), plan.rows.data(), nullptr, sorted.data(), tokens, 4, 2, cols, plan.sorted(), Dtype::f32});
  run(host_kernels().unpermute, UnpermuteArgs{sorted.data(), plan.rows.data(), nullptr, back.data(), tokens, 4, 2, cols,
                                              plan.sorted(), Dtype::f32});
  for (std::int64_t i = 0; i < x.count(); ++i) EXPECT_EQ(back.at(i), 4 * x.at(i));
}

TEST(Permute, WithoutRowsItScalesEachToken) {
  Tensor const x = Tensor::random(Dtype::f32, 9 * 5, 1);
  Tensor weights = Tensor::random(Dtype::f32, 9, 2), y(Dtype::f32, 9 * 5), out = y, dots(Dtype::f32, 9);
  run(host_kernels().unpermute,
      UnpermuteArgs{x.data(), nullptr, weights.floats(), y.data(), 9, 1, 1, 5, 9, Dtype::f32});
  run(host_kernels().permute, PermuteArgs{x.data(), nullptr, weights.floats(), out.data(), 9, 1, 1, 5, 9, Dtype::f32});
  run(host_kernels().combine_weights,
      CombineWeightsArgs{x.data(), x.data(), nullptr, dots.floats(), 9, 1, 1, 5, 9, Dtype::f32});
  for (std::int64_t t = 0; t < 9; ++t) {
    double squares = 0;
    for (std::int64_t c = 0; c < 5; ++c) {
      EXPECT_EQ(y.at(t * 5 + c), static_cast<double>(static_cast<float>(weights.at(t) * x.at(t * 5 + c))));
      EXPECT_EQ(out.at(t * 5 + c), y.at(t * 5 + c));
      squares += x.at(t * 5 + c) * x.at(t * 5 + c);
    }
    EXPECT_NEAR(dots.at(t), squares, 1e-5);
  }
}

TEST(Permute, UnpermuteIsTheDerivativeOfPermute) {
  // <permute(x), r> = <x, unpermute(r)> for any r: each is the other's transpose, weights included.
  Plan const plan = plan_rows(host_kernels(), choices(20, 2, 8), shape(2, 8, 2, 1, 3));
  Tensor const x = Tensor::random(Dtype::f32, 20 * 4, 1), r = Tensor::random(Dtype::f32, plan.sorted() * 4, 2);
  Tensor weights = Tensor::random(Dtype::f32, 40, 3), there(Dtype::f32, plan.sorted() * 4), back(Dtype::f32, 20 * 4),
         dots(Dtype::f32, 40);
  run(host_kernels().permute,
      PermuteArgs{x.data(), plan.rows.data(), weights.floats(), there.data(), 20, 2, 1, 4, plan.sorted(), Dtype::f32});
  run(host_kernels().unpermute,
      UnpermuteArgs{r.data(), plan.rows.data(), weights.floats(), back.data(), 20, 2, 1, 4, plan.sorted(), Dtype::f32});
  run(host_kernels().combine_weights,
      CombineWeightsArgs{x.data(), r.data(), plan.rows.data(), dots.floats(), 20, 2, 1, 4, plan.sorted(), Dtype::f32});
  EXPECT_LT(plan.sorted(), 40) << "some are dropped";
  EXPECT_NEAR(inner_product(there, r), inner_product(x, back), 1e-4);
  EXPECT_NEAR(inner_product(weights, dots), inner_product(x, back), 1e-4) << "linear in the weights too";
}

}  // namespace
}  // namespace shardbench::test
