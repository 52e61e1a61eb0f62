#include "tests/kernels/compare.hpp"

namespace shardbench::test {
namespace {

struct Problem {
  std::int64_t rows, cols;
  Dtype dtype;
  Tensor x, dy, weight, bias, mean, rstd;

  Problem(std::int64_t r, std::int64_t c, Dtype type)
      : rows(r),
        cols(c),
        dtype(type),
        x(Tensor::random(type, r * c, 1, 2.0, 3.0)),
        dy(Tensor::random(type, r * c, 2)),
        weight(Tensor::random(type, c, 3, 0.5, 1.0)),
        bias(Tensor::random(type, c, 4)),
        mean(Dtype::f32, c),
        rstd(Dtype::f32, c) {}
  Tensor forward(KernelSet const& kernels) {
    Tensor y(dtype, x.count());
    run(kernels.batch_norm_forward, BatchNormForwardArgs{x.data(), weight.data(), bias.data(), y.data(), mean.floats(),
                                                         rstd.floats(), rows, cols, 1e-3f, dtype});
    return y;
  }
  Tensor backward(KernelSet const& kernels, Tensor& dweight, Tensor& dbias, bool accumulate) {
    Tensor dx(dtype, x.count()), sums(Dtype::f32, 2 * cols);
    run(kernels.batch_norm_backward,
        BatchNormBackwardArgs{dy.data(), x.data(), weight.data(), mean.floats(), rstd.floats(), dx.data(),
                              dweight.floats(), dbias.floats(), sums.floats(), rows, cols, accumulate, dtype});
    return dx;
  }
};

struct Size {
  std::int64_t rows, cols;
};
constexpr Size sizes[] = {{7, 3}, {64, 16}, {130, 33}, {300, 8}};

TEST(BatchNorm, HostEqualsReference) {
  for (Size const size : sizes)
    for (Dtype const dtype : storage_dtypes)
      for (bool const accumulate : {false, true}) {
        Problem host(size.rows, size.cols, dtype), reference(size.rows, size.cols, dtype);
        double const limit = tolerance(dtype, 4 * size.rows);
        EXPECT_TRUE(close(host.forward(host_kernels()), reference.forward(reference_kernels()), limit));
        EXPECT_TRUE(close(host.mean, reference.mean, tolerance(Dtype::f32, size.rows)));
        EXPECT_TRUE(close(host.rstd, reference.rstd, tolerance(Dtype::f32, size.rows)));
        Tensor dweight = Tensor::random(Dtype::f32, size.cols, 5), dbias = Tensor::random(Dtype::f32, size.cols, 6);
        Tensor dweight_expected = dweight.as(Dtype::f32), dbias_expected = dbias.as(Dtype::f32);
        EXPECT_TRUE(close(host.backward(host_kernels(), dweight, dbias, accumulate),
                          reference.backward(reference_kernels(), dweight_expected, dbias_expected, accumulate),
                          limit));
        EXPECT_TRUE(close(dweight, dweight_expected, tolerance(Dtype::f32, 16 * size.rows)));
        EXPECT_TRUE(close(dbias, dbias_expected, tolerance(Dtype::f32, 4 * size.rows)));
      }
}

TEST(BatchNorm, BackwardIsTheDerivativeOfForward) {
  Problem exact(6, 3, Dtype::f64);
  Problem rounded(6, 3, Dtype::f32);
  rounded.forward(host_kernels());
  Tensor dweight(Dtype::f32, 3), dbias(Dtype::f32, 3);
  Tensor const dx = rounded.backward(host_kernels(), dweight, dbias, false);
  auto const loss = [&] { return inner_product(exact.forward(reference_kernels()), exact.dy); };
  EXPECT_TRUE(close(dx, finite_differences(exact.x, loss), 5 * gradient_tolerance));
  EXPECT_TRUE(close(dweight, finite_differences(exact.weight, loss), gradient_tolerance));
  EXPECT_TRUE(close(dbias, finite_differences(exact.bias, loss), gradient_tolerance));
}

TEST(BatchNorm, ColumnsComeOutWithMeanZeroAndDeviationOne) {
  Problem p(200, 2, Dtype::f32);
  for (std::int64_t c = 0; c < 2; ++c) p.weight.set(c, 1), p.bias.set(c, 0);
  Tensor const y = p.forward(host_kernels());
  for (std::int64_t c = 0; c < 2; ++c) {
    double sum = 0, squares = 0;
    for (std::int64_t r = 0; r < 200; ++r) sum += y.at(2 * r + c), squares += y.at(2 * r + c) * y.at(2 * r + c);
    EXPECT_NEAR(sum / 200, 0, 1e-5);
    EXPECT_NEAR(squares / 200, 1, 1e-3);
  }
}

TEST(BatchNorm, NoRowsAddNothing) {
  Problem p(0, 4, Dtype::f32);
  p.forward(host_kernels());
  Tensor dweight(Dtype::f32, 4), dbias(Dtype::f32, 4);
  p.backward(host_kernels(), dweight, dbias, false);
  for (std::int64_t c = 0; c < 4; ++c) {
    EXPECT_EQ(dweight.at(c), 0);
    EXPECT_EQ(dbias.at(c), 0);
  }
}

}  // namespace
}  // namespace shardbench::test
