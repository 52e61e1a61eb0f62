#include "tests/kernels/compare.hpp"

namespace shardbench::test {
namespace {

struct Case {
  NormKind kind;
  std::int64_t rows, cols;
  bool residual = false, bias = true;
  float weight_offset = 0;
  std::int64_t x_gap = 0, y_gap = 0, heads = 1;
  std::int64_t x_stride() const { return heads * cols + x_gap; }
  std::int64_t y_stride() const { return heads * cols + y_gap; }
};

constexpr Case cases[] = {
    {NormKind::layer_norm, 1, 8},
    {NormKind::layer_norm, 5, 33},
    {NormKind::layer_norm, 150, 7, true},
    {NormKind::layer_norm, 3, 768, true, false},
    {NormKind::rms_norm, 9, 65, false, false},
    {NormKind::rms_norm, 4, 127, true, false, 1.0f},
    {NormKind::rms_norm, 6, 16, false, false, 0, 5, 3},
    {NormKind::layer_norm, 0, 16},
    {NormKind::rms_norm, 5, 8, false, false, 0, 16, 4, 3},
    {NormKind::layer_norm, 70, 12, false, true, 0, 0, 6, 2},
};

struct Forward {
  Tensor y, sum, mean, rstd;
};

struct Problem {
  Case c;
  Dtype dtype;
  Tensor x, residual, weight, bias, dy, dsum;

  Problem(Case const& given, Dtype type)
      : c(given),
        dtype(type),
        x(Tensor::random(type, c.rows * c.x_stride(), 1, 2.0, 0.5)),
        residual(Tensor::random(type, c.rows * c.cols, 2)),
        weight(Tensor::random(type, c.cols, 3, 0.5, 1.0)),
        bias(Tensor::random(type, c.cols, 4)),
        dy(Tensor::random(type, c.rows * c.y_stride(), 5)),
        dsum(Tensor::random(type, c.rows * c.x_stride(), 6)) {}

  Forward forward(KernelSet const& kernels) const {
    Forward result{Tensor(dtype, dy.count()), Tensor(dtype, residual.count()), Tensor(Dtype::f32, c.rows * c.heads),
                   Tensor(Dtype::f32, c.rows * c.heads)};
    NormForwardArgs args;
    args.kind = c.kind;
    args.x = x.data();
    args.residual = c.residual ? residual.data() : nullptr;
    args.sum = c.residual ? result.sum.data() : nullptr;
    args.weight = weight.data();
    args.bias = c.bias ? bias.data() : nullptr;
    args.y = result.y.data();
    args.mean = c.kind == NormKind::layer_norm ? result.mean.floats() : nullptr;
    args.rstd = result.rstd.floats();
    args.rows = c.rows;
    args.cols = c.cols;
    args.x_stride = c.x_stride();
    args.y_stride = c.y_stride();
    args.heads = c.heads;
    args.weight_offset = c.weight_offset;
    args.dtype = dtype;
    run(kernels.norm_forward, args);
    return result;
  }
};

struct Backward {
  Tensor dx, dweight, dbias;
};

Backward backward(KernelSet const& kernels, Problem const& p, Forward given, bool with_dsum, Backward result,
                  bool accumulate) {
  NormBackwardArgs args;
  args.kind = p.c.kind;
  args.dy = p.dy.data();
  args.x = p.c.residual ? given.sum.data() : p.x.data();
  args.weight = p.weight.data();
  args.mean = p.c.kind == NormKind::layer_norm ? given.mean.floats() : nullptr;
  args.rstd = given.rstd.floats();
  args.dsum = with_dsum ? p.dsum.data() : nullptr;
  args.dx = result.dx.data();
  args.dweight = result.dweight.floats();
  args.dbias = p.c.bias ? result.dbias.floats() : nullptr;
  args.rows = p.c.rows;
  args.cols = p.c.cols;
  args.x_stride = p.c.x_stride();
  args.y_stride = p.c.y_stride();
  args.heads = p.c.heads;
  args.weight_offset = p.c.weight_offset;
  args.accumulate = accumulate;
  args.dtype = p.dtype;
  run(kernels.norm_backward, args);
  return result;
}

Backward poisoned(Problem const& p) {
  return {Tensor(p.dtype, p.x.count()), Tensor(Dtype::f32, p.c.cols), Tensor(Dtype::f32, p.c.cols)};
}

TEST(Norm, ForwardEqualsReference) {
  for (Case const& c : cases) {
    for (Dtype const dtype : storage_dtypes) {
      Problem const problem(c, dtype);
      Forward const actual = problem.forward(host_kernels()), expected = problem.forward(reference_kernels());
      EXPECT_TRUE(close(actual.y, expected.y, tolerance(dtype, c.cols), c.rows * c.y_gap)) << c.rows << 'x' << c.cols;
      EXPECT_TRUE(close(actual.rstd, expected.rstd, tolerance(Dtype::f32, c.cols)));
      if (c.residual) {
        EXPECT_TRUE(close(actual.sum, expected.sum, tolerance(dtype)));
      }
      if (c.kind == NormKind::layer_norm) {
        EXPECT_TRUE(close(actual.mean, expected.mean, tolerance(Dtype::f32, c.cols)));
      }
    }
  }
}

TEST(Norm, BackwardEqualsReference) {
  for (Case const& c : cases) {
    if (c.rows == 0) continue;  // its column sums are all zero
    for (Dtype const dtype : storage_dtypes) {
      for (bool const with_dsum : {false, true}) {
        Problem const p(c, dtype);
        Forward const given = p.forward(reference_kernels());
        Backward const actual = backward(host_kernels(), p, given, with_dsum, poisoned(p), false);
        Backward const expected = backward(reference_kernels(), p, given, with_dsum, poisoned(p), false);
        EXPECT_TRUE(close(actual.dx, expected.dx, tolerance(dtype, 4 * c.cols), c.rows * c.x_gap));
        EXPECT_TRUE(close(actual.dweight, expected.dweight, tolerance(Dtype::f32, c.rows * c.heads)));
        if (c.bias) {
          EXPECT_TRUE(close(actual.dbias, expected.dbias, tolerance(Dtype::f32, c.rows)));
        }
      }
    }
  }
}

TEST(Norm, BackwardWithoutRowsClearsTheSums) {
  Problem const p({NormKind::layer_norm, 0, 5}, Dtype::f32);
  Backward const result = backward(host_kernels(), p, p.forward(host_kernels()), false, poisoned(p), false);
  for (std::int64_t c = 0; c < 5; ++c) EXPECT_EQ(result.dweight.at(c), 0);
}

TEST(Norm, BackwardAccumulatesAndMayOverwriteDsum) {
  Problem p({NormKind::layer_norm, 7, 12}, Dtype::f32);
  Forward const given = p.forward(host_kernels());
  Backward const once = backward(host_kernels(), p, given, true, poisoned(p), false);
  Backward const twice = backward(host_kernels(), p, given, true, once, true);
  for (std::int64_t c = 0; c < 12; ++c) EXPECT_EQ(twice.dweight.at(c), 2 * once.dweight.at(c));
  for (std::int64_t c = 0; c < 12; ++c) EXPECT_EQ(twice.dbias.at(c), 2 * once.dbias.at(c));
  Problem in_place = p;
  NormBackwardArgs args;
  Forward statistics = given;
  args.dy = p.dy.data();
  args.x = p.x.data();
  args.weight = p.weight.data();
  args.mean = statistics.mean.floats();
  args.rstd = statistics.rstd.floats();
  args.dsum = args.dx = in_place.dsum.data();
  args.rows = 7;
  args.cols = args.x_stride = args.y_stride = 12;
  run(host_kernels().norm_backward, args);
  for (std::int64_t i = 0; i < once.dx.count(); ++i) EXPECT_EQ(in_place.dsum.at(i), once.dx.at(i));
}

TEST(Norm, BackwardIsTheDerivativeOfForward) {
  for (Case const& c : {Case{NormKind::layer_norm, 3, 9}, Case{NormKind::rms_norm, 4, 7, false, false, 1.0f}}) {
    Problem exact(c, Dtype::f64);
    Problem const rounded(c, Dtype::f32);
    auto const loss = [&] { return inner_product(exact.forward(reference_kernels()).y, exact.dy); };
    Backward const actual =
        backward(host_kernels(), rounded, rounded.forward(host_kernels()), false, poisoned(rounded), false);
    EXPECT_TRUE(close(actual.dx, finite_differences(exact.x, loss), gradient_tolerance));
    EXPECT_TRUE(close(actual.dweight, finite_differences(exact.weight, loss), gradient_tolerance));
    if (c.bias) {
      EXPECT_TRUE(close(actual.dbias, finite_differences(exact.bias, loss), gradient_tolerance));
    }
  }
}

TEST(Norm, HeadsSideBySideAreRowsOfTheirOwn) {
  Problem const together({NormKind::rms_norm, 6, 5, false, false, 0, 0, 0, 4}, Dtype::f32);
  Problem const apart({NormKind::rms_norm, 24, 5, false, false}, Dtype::f32);  // the same elements, one head a row
  Forward const a = together.forward(host_kernels()), b = apart.forward(host_kernels());
  for (std::int64_t i = 0; i < b.y.count(); ++i) EXPECT_EQ(a.y.at(i), b.y.at(i));
  Backward const da = backward(host_kernels(), together, a, false, poisoned(together), false);
  Backward const db = backward(host_kernels(), apart, b, false, poisoned(apart), false);
  for (std::int64_t i = 0; i < db.dx.count(); ++i) EXPECT_EQ(da.dx.at(i), db.dx.at(i));
  EXPECT_TRUE(close(da.dweight, db.dweight, tolerance(Dtype::f32, 24)));
}

TEST(Norm, RowsAreNormalised) {
  Problem p({NormKind::layer_norm, 3, 64, false, false}, Dtype::f32);
  for (std::int64_t c = 0; c < 64; ++c) p.weight.set(c, 1);
  Forward const result = p.forward(host_kernels());
  for (std::int64_t r = 0; r < 3; ++r) {
    double mean = 0, square = 0;
    for (std::int64_t c = 0; c < 64; ++c) {
      mean += result.y.at(r * 64 + c) / 64;
      square += result.y.at(r * 64 + c) * result.y.at(r * 64 + c) / 64;
    }
    EXPECT_NEAR(mean, 0, 1e-6);
    EXPECT_NEAR(square, 1, 1e-4);
  }
}

}  // namespace
}  // namespace shardbench::test
