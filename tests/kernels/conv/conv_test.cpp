#include <array>

#include "tests/kernels/compare.hpp"

namespace shardbench::test {
namespace {

/// Strides that leave a remainder, windows wider than the image, patches, and nothing at all.
constexpr WindowShape windows[] = {
    {5, 7, 2, 3, 3, 1, 1}, {6, 6, 1, 8, 3, 2, 1}, {5, 4, 2, 16, 3, 2, 1}, {8, 8, 2, 3, 4, 4, 0},
    {2, 2, 1, 5, 5, 1, 2}, {4, 4, 3, 8, 1, 1, 0}, {4, 4, 0, 8, 3, 1, 1},
};

struct Problem {
  WindowShape window;
  Dtype dtype;
  Tensor x, cols, dy, weight;

  Problem(WindowShape const& w, Dtype type)
      : window(w),
        dtype(type),
        x(Tensor::random(type, w.rows() * w.channels, 1)),
        cols(Tensor::random(type, w.out_rows() * w.taps() * w.channels, 2)),
        dy(Tensor::random(type, w.out_rows() * w.channels, 3)),
        weight(Tensor::random(type, w.taps() * w.channels, 4)) {}

  Tensor im2col(KernelSet const& kernels) const {
    Tensor result(dtype, cols.count());
    run(kernels.im2col, Im2colArgs{window, x.data(), result.data(), dtype});
    return result;
  }
  Tensor col2im(KernelSet const& kernels) const {
    Tensor result(dtype, x.count());
    run(kernels.col2im, Col2imArgs{window, cols.data(), result.data(), dtype});
    return result;
  }
  Tensor depthwise(KernelSet const& kernels) const {
    Tensor result(dtype, dy.count());
    run(kernels.depthwise_forward, DepthwiseForwardArgs{window, x.data(), weight.data(), result.data(), dtype});
    return result;
  }
  Tensor depthwise_backward(KernelSet const& kernels, Tensor& dweight, bool accumulate) const {
    Tensor dx(dtype, x.count());
    run(kernels.depthwise_backward, DepthwiseBackwardArgs{window, dy.data(), x.data(), weight.data(), dx.data(),
                                                          dweight.floats(), accumulate, dtype});
    return dx;
  }
};

TEST(Conv, ColumnsEqualReference) {
  for (WindowShape const& window : windows)
    for (Dtype const dtype : storage_dtypes) {
      Problem const problem(window, dtype);
      Tensor const host = problem.im2col(host_kernels()), reference = problem.im2col(reference_kernels());
      for (std::int64_t i = 0; i < reference.count(); ++i) ASSERT_EQ(host.at(i), reference.at(i)) << i;
      EXPECT_TRUE(
          close(problem.col2im(host_kernels()), problem.col2im(reference_kernels()), tolerance(dtype, window.taps())));
    }
}

TEST(Conv, DepthwiseEqualsReference) {
  for (WindowShape const& window : windows)
    for (Dtype const dtype : storage_dtypes)
      for (bool const accumulate : {false, true}) {
        Problem const problem(window, dtype);
        EXPECT_TRUE(close(problem.depthwise(host_kernels()), problem.depthwise(reference_kernels()),
                          tolerance(dtype, window.taps())));
        Tensor dweight = Tensor::random(Dtype::f32, problem.weight.count(), 5), expected = dweight.as(Dtype::f32);
        EXPECT_TRUE(close(problem.depthwise_backward(host_kernels(), dweight, accumulate),
                          problem.depthwise_backward(reference_kernels(), expected, accumulate),
                          tolerance(dtype, window.taps())));
        if (accumulate || window.batch > 0) {
          EXPECT_TRUE(close(dweight, expected, tolerance(Dtype::f32, window.out_rows())));
        }
      }
}

TEST(Conv, ColumnToImageIsTheTransposeOfImageToColumn) {
  for (WindowShape const& window : windows) {
    Problem const problem(window, Dtype::f32);
    double const forward = inner_product(problem.im2col(host_kernels()), problem.cols);
    double const backward = inner_product(problem.x, problem.col2im(host_kernels()));
    EXPECT_NEAR(forward, backward, 1e-4 * (1 + std::abs(forward)));
  }
}

TEST(Conv, DepthwiseBackwardIsTheDerivativeOfForward) {
  WindowShape const window{4, 5, 2, 3, 3, 2, 1};
  Problem exact(window, Dtype::f64);
  Problem const rounded(window, Dtype::f32);
  auto const loss = [&] { return inner_product(exact.depthwise(reference_kernels()), exact.dy); };
  Tensor dweight(Dtype::f32, exact.weight.count());
  Tensor const dx = rounded.depthwise_backward(host_kernels(), dweight, false);
  EXPECT_TRUE(close(dx, finite_differences(exact.x, loss), gradient_tolerance));
  EXPECT_TRUE(close(dweight, finite_differences(exact.weight, loss), gradient_tolerance));
}

TEST(Conv, PatchesAreSquaresOfTheImage) {
  // A 4x4 image of one channel whose pixels are numbered: the second patch of 2x2 has pixels 2, 3, 6, 7.
  WindowShape const window{4, 4, 1, 1, 2, 2, 0};
  Tensor x(Dtype::f32, 16), cols(Dtype::f32, 16);
  for (std::int64_t i = 0; i < 16; ++i) x.set(i, static_cast<double>(i));
  run(host_kernels().im2col, Im2colArgs{window, x.data(), cols.data(), Dtype::f32});
  for (std::int64_t i = 0; i < 4; ++i)
    EXPECT_EQ(cols.at(4 + i), (std::array<double, 4>{2, 3, 6, 7}[static_cast<std::size_t>(i)]));
}

}  // namespace
}  // namespace shardbench::test
