#include "tests/kernels/compare.hpp"

namespace shardbench::test {
namespace {

constexpr WindowShape windows[] = {
    {5, 6, 2, 3, 5, 1, 2}, {4, 4, 1, 8, 5, 1, 2}, {6, 5, 3, 16, 2, 2, 0}, {3, 3, 0, 4, 5, 1, 2}};

struct MaxPool {
  WindowShape window;
  Dtype dtype;
  Tensor x, dy;
  std::vector<std::uint8_t> taps;

  MaxPool(WindowShape const& w, Dtype type)
      : window(w),
        dtype(type),
        x(Tensor::random(type, w.rows() * w.channels, 1)),
        dy(Tensor::random(type, w.out_rows() * w.channels, 2)),
        taps(static_cast<std::size_t>(dy.count())) {}
  Tensor forward(KernelSet const& kernels) {
    Tensor y(dtype, dy.count());
    run(kernels.max_pool_forward, MaxPoolForwardArgs{window, x.data(), y.data(), taps.data(), dtype});
    return y;
  }
  Tensor backward(KernelSet const& kernels) const {
    Tensor dx(dtype, x.count());
    run(kernels.max_pool_backward, MaxPoolBackwardArgs{window, dy.data(), taps.data(), dx.data(), dtype});
    return dx;
  }
};

TEST(MaxPool, HostEqualsReference) {
  for (WindowShape const& window : windows)
    for (Dtype const dtype : storage_dtypes) {
      MaxPool host(window, dtype), reference(window, dtype);
      EXPECT_TRUE(close(host.forward(host_kernels()), reference.forward(reference_kernels()), 0));
      EXPECT_EQ(host.taps, reference.taps);
      if (window.batch == 0) continue;
      Tensor const dx = host.backward(host_kernels()), expected = reference.backward(reference_kernels());
      // Most elements are no maximum and exactly zero, which close() takes for no evidence.
      for (std::int64_t i = 0; i < dx.count(); ++i)
        EXPECT_NEAR(dx.at(i), expected.at(i), tolerance(dtype, window.taps()) * std::abs(expected.at(i))) << i;
    }
}

TEST(MaxPool, GradientsGoToTheLargest) {
  WindowShape const window{2, 2, 1, 1, 2, 2, 0};
  MaxPool pool(window, Dtype::f32);
  for (std::int64_t i = 0; i < 4; ++i) pool.x.set(i, i == 2 ? 5.0 : -1.0);
  pool.dy.set(0, 3);
  EXPECT_EQ(pool.forward(host_kernels()).at(0), 5);
  Tensor const dx = pool.backward(host_kernels());
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(dx.at(i), i == 2 ? 3 : 0);
}

TEST(Upsample, HostEqualsReferenceAndBackwardIsTheTranspose) {
  struct Size {
    std::int64_t height, width, batch, channels, factor;
  };
  for (Size const s : {Size{3, 2, 2, 5, 2}, Size{2, 3, 1, 8, 3}, Size{2, 2, 0, 4, 2}})
    for (Dtype const dtype : storage_dtypes) {
      std::int64_t const small = s.height * s.width * s.batch * s.channels, large = small * s.factor * s.factor;
      Tensor const x = Tensor::random(dtype, small, 1), dy = Tensor::random(dtype, large, 2);
      auto const forward = [&](KernelSet const& kernels) {
        Tensor y(dtype, large);
        run(kernels.upsample_forward,
            UpsampleForwardArgs{s.height, s.width, s.batch, s.channels, s.factor, x.data(), y.data(), dtype});
        return y;
      };
      auto const backward = [&](KernelSet const& kernels) {
        Tensor dx(dtype, small);
        run(kernels.upsample_backward,
            UpsampleBackwardArgs{s.height, s.width, s.batch, s.channels, s.factor, dy.data(), dx.data(), dtype});
        return dx;
      };
      EXPECT_TRUE(close(forward(host_kernels()), forward(reference_kernels()), 0));
      EXPECT_TRUE(
          close(backward(host_kernels()), backward(reference_kernels()), tolerance(dtype, s.factor * s.factor)));
      if (dtype == Dtype::f32) {
        EXPECT_NEAR(inner_product(forward(host_kernels()), dy), inner_product(x, backward(host_kernels())), 1e-4);
      }
    }
}

TEST(PoolRows, ClassTokenAndMeanEqualReference) {
  struct Range {
    std::int64_t seq, batch, cols, begin, end;
  };
  for (Range const r : {Range{5, 2, 7, 0, 1}, Range{6, 3, 8, 0, 6}, Range{4, 1, 16, 1, 3}, Range{3, 0, 4, 0, 1}})
    for (Dtype const dtype : storage_dtypes) {
      float const scale = 1.0f / static_cast<float>(r.end - r.begin);
      Tensor const x = Tensor::random(dtype, r.seq * r.batch * r.cols, 1),
                   dy = Tensor::random(dtype, r.batch * r.cols, 2);
      auto const forward = [&](KernelSet const& kernels) {
        Tensor y(dtype, dy.count());
        run(kernels.pool_rows_forward,
            PoolRowsForwardArgs{r.seq, r.batch, r.cols, r.begin, r.end, scale, x.data(), y.data(), dtype});
        return y;
      };
      auto const backward = [&](KernelSet const& kernels) {
        Tensor dx(dtype, x.count());
        run(kernels.pool_rows_backward,
            PoolRowsBackwardArgs{r.seq, r.batch, r.cols, r.begin, r.end, scale, dy.data(), dx.data(), dtype});
        return dx;
      };
      EXPECT_TRUE(close(forward(host_kernels()), forward(reference_kernels()), tolerance(dtype, r.seq)));
      EXPECT_TRUE(close(backward(host_kernels()), backward(reference_kernels()), tolerance(dtype)));
    }
}

TEST(PoolRows, AnEmptyRangeGivesZeros) {
  Tensor x = Tensor::random(Dtype::f32, 12, 1), y(Dtype::f32, 4);
  run(host_kernels().pool_rows_forward, PoolRowsForwardArgs{3, 2, 2, 0, 0, 1.0f, x.data(), y.data(), Dtype::f32});
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(y.at(i), 0);
  run(host_kernels().pool_rows_backward, PoolRowsBackwardArgs{3, 2, 2, 0, 0, 1.0f, y.data(), x.data(), Dtype::f32});
  for (std::int64_t i = 0; i < 12; ++i) EXPECT_EQ(x.at(i), 0);
}

}  // namespace
}  // namespace shardbench::test
