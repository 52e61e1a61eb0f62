#include <numeric>

#include "tests/kernels/compare.hpp"

namespace shardbench::test {
namespace {

/// `places` sequence places from `first` on, of `batch` samples.
struct Case {
  std::int64_t places, batch, cols, first;
};

std::vector<std::int32_t> places_from(std::int64_t first, std::int64_t count) {
  std::vector<std::int32_t> positions(static_cast<std::size_t>(count));
  std::iota(positions.begin(), positions.end(), static_cast<std::int32_t>(first));
  return positions;
}

DropoutArgs args_for(Case const& c, std::vector<std::int32_t> const& positions, Tensor const& x, Tensor& out,
                     float rate) {
  DropoutArgs args;
  args.x = x.data(), args.out = out.data();
  args.rows = c.places * c.batch, args.cols = c.cols;
  args.rate = rate, args.key = 77;
  args.positions = positions.data();
  args.batch = c.batch, args.seq = 50, args.first_sample = 3;
  args.dtype = x.dtype();
  return args;
}

TEST(Dropout, HostEqualsReference) {
  for (Dtype const dtype : storage_dtypes)
    for (Case const c : {Case{7, 1, 13, 0}, Case{4, 3, 16, 5}, Case{1, 2, 1, 0}})
      for (int variant = 0; variant < 8; ++variant) {
        auto const positions = places_from(c.first, c.places);
        std::int64_t const count = c.places * c.batch * c.cols;
        Tensor const x = Tensor::random(dtype, count, 1, 1, 2), bias = Tensor::random(dtype, c.cols, 2),
                     residual = Tensor::random(dtype, count, 3, 1, 2);
        Tensor actual(dtype, count), expected(dtype, count);
        DropoutArgs args = args_for(c, positions, x, actual, variant & 1 ? 0.3f : 0.0f);
        args.copies = c.batch == 2 ? 2 : 1;
        if (variant & 2) args.bias = bias.data();
        if (variant & 4 || variant & 1) args.residual = residual.data();
        run(host_kernels().dropout, args);
        args.out = expected.data();
        run(reference_kernels().dropout, args);
        EXPECT_TRUE(close(actual, expected, tolerance(dtype)));
      }
}

TEST(Dropout, DropsTheShareAskedForAndKeepsTheMean) {
  constexpr std::int64_t places = 50, cols = 400;
  auto const positions = places_from(0, places);
  Tensor x(Dtype::f32, places * cols), y(Dtype::f32, places * cols);
  for (std::int64_t i = 0; i < x.count(); ++i) x.set(i, 1);
  run(host_kernels().dropout, args_for({places, 1, cols, 0}, positions, x, y, 0.25f));
  double zeros = 0, sum = 0;
  for (std::int64_t i = 0; i < y.count(); ++i) zeros += y.at(i) == 0 ? 1 : 0, sum += y.at(i);
  double const n = static_cast<double>(y.count());
  EXPECT_NEAR(zeros / n, 0.25, 4 * std::sqrt(0.25 * 0.75 / n));
  EXPECT_NEAR(sum / n, 1, 4 * std::sqrt(0.25 / 0.75 / n));
}

TEST(Dropout, ASliceOfTheSequenceDropsWhatTheWholeDrops) {
  constexpr std::int64_t places = 12, batch = 2, cols = 5;
  Tensor const x = Tensor::random(Dtype::f32, places * batch * cols, 1);
  Tensor whole(Dtype::f32, x.count());
  auto const all = places_from(0, places), part = places_from(8, 4);
  run(host_kernels().dropout, args_for({places, batch, cols, 0}, all, x, whole, 0.5f));
  Tensor slice(Dtype::f32, 4 * batch * cols), result = slice;
  std::int64_t const offset = 8 * batch * cols;
  for (std::int64_t i = 0; i < slice.count(); ++i) slice.set(i, x.at(offset + i));
  run(host_kernels().dropout, args_for({4, batch, cols, 8}, part, slice, result, 0.5f));
  for (std::int64_t i = 0; i < slice.count(); ++i) EXPECT_EQ(result.at(i), whole.at(offset + i));
}

TEST(ClipFactor, HostEqualsReference) {
  for (float const squares : {0.0f, 0.25f, 1.0f, 16.0f, 1e8f})
    for (float const max_norm : {0.5f, 1.0f, 3.0f}) {
      float actual = -1, expected = -1;
      run(host_kernels().clip_factor, ClipFactorArgs{&squares, &actual, max_norm});
      run(reference_kernels().clip_factor, ClipFactorArgs{&squares, &expected, max_norm});
      EXPECT_NEAR(actual, expected, 1e-6f * expected);
      EXPECT_LE(actual, 1);
    }
}

}  // namespace
}  // namespace shardbench::test
