#include "tests/kernels/compare.hpp"

namespace shardbench::test {
namespace {

constexpr ActivationKind kinds[] = {ActivationKind::gelu_tanh, ActivationKind::gelu_erf, ActivationKind::silu};

struct Size {
  std::int64_t rows, cols;
};

constexpr Size sizes[] = {{1, 1}, {3, 17}, {2, 256}, {0, 8}};

struct Problem {
  ActivationKind kind;
  bool gated;
  Size size;
  Dtype dtype;
  Tensor x, dy;

  Problem(ActivationKind of_kind, bool is_gated, Size of_size, Dtype type)
      : kind(of_kind),
        gated(is_gated),
        size(of_size),
        dtype(type),
        x(Tensor::random(type, size.rows * size.cols * (gated ? 2 : 1), 1, 3.0)),
        dy(Tensor::random(type, size.rows * size.cols, 2)) {}
  Tensor forward(KernelSet const& kernels) const {
    Tensor y(dtype, dy.count());
    run(kernels.activation_forward,
        ActivationForwardArgs{kind, gated, x.data(), y.data(), size.rows, size.cols, dtype});
    return y;
  }
  Tensor backward(KernelSet const& kernels) const {
    Tensor dx(dtype, x.count());
    run(kernels.activation_backward,
        ActivationBackwardArgs{kind, gated, dy.data(), x.data(), dx.data(), size.rows, size.cols, dtype});
    return dx;
  }
};

TEST(Activation, HostEqualsReference) {
  for (ActivationKind const kind : kinds) {
    for (bool const gated : {false, true}) {
      for (Size const size : sizes) {
        for (Dtype const dtype : storage_dtypes) {
          Problem const problem(kind, gated, size, dtype);
          EXPECT_TRUE(close(problem.forward(host_kernels()), problem.forward(reference_kernels()), tolerance(dtype)));
          EXPECT_TRUE(close(problem.backward(host_kernels()), problem.backward(reference_kernels()), tolerance(dtype)));
        }
      }
    }
  }
}

TEST(Activation, BackwardIsTheDerivativeOfForward) {
  for (ActivationKind const kind : kinds) {
    for (bool const gated : {false, true}) {
      Problem exact(kind, gated, {2, 5}, Dtype::f64);
      Problem const rounded(kind, gated, {2, 5}, Dtype::f32);
      auto const loss = [&] { return inner_product(exact.forward(reference_kernels()), exact.dy); };
      EXPECT_TRUE(close(rounded.backward(host_kernels()), finite_differences(exact.x, loss), gradient_tolerance));
    }
  }
}

TEST(Activation, BackwardMayOverwriteItsInput) {
  for (bool const gated : {false, true}) {
    Problem problem(ActivationKind::silu, gated, {3, 19}, Dtype::f32);
    Tensor const apart = problem.backward(host_kernels());
    run(host_kernels().activation_backward,
        ActivationBackwardArgs{problem.kind, gated, problem.dy.data(), problem.x.data(), problem.x.data(), 3, 19,
                               Dtype::f32});
    for (std::int64_t i = 0; i < apart.count(); ++i) EXPECT_EQ(problem.x.at(i), apart.at(i));
  }
}

TEST(Activation, KnownValues) {
  Tensor x(Dtype::f32, 3), y(Dtype::f32, 3);
  x.set(0, 0);
  x.set(1, 1);
  x.set(2, -100);
  run(host_kernels().activation_forward,
      ActivationForwardArgs{ActivationKind::silu, false, x.data(), y.data(), 1, 3, Dtype::f32});
  EXPECT_EQ(y.at(0), 0);
  EXPECT_NEAR(y.at(1), 1 / (1 + std::exp(-1.0)), 1e-6);
  EXPECT_NEAR(y.at(2), 0, 1e-30);
  run(host_kernels().activation_forward,
      ActivationForwardArgs{ActivationKind::gelu_erf, false, x.data(), y.data(), 1, 3, Dtype::f32});
  EXPECT_NEAR(y.at(1), 0.5 * (1 + std::erf(1 / std::sqrt(2.0))), 1e-6);
}

}  // namespace
}  // namespace shardbench::test
