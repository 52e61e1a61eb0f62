#include "kernels/core/cuda/column_sum.hpp"
#include "kernels/core/cuda/vec.hpp"
#include "kernels/kernel_set_cuda.hpp"

namespace shardbench::cuda {
namespace {

template <class T>
struct Value {
  T const* x;
  std::int64_t cols;
  __device__ float operator()(std::int64_t row, std::int64_t col) const { return to_float(x[row * cols + col]); }
};

template <class T>
struct SquaredDeviation {
  T const* x;
  float const* mean;
  std::int64_t cols;
  __device__ float operator()(std::int64_t row, std::int64_t col) const {
    float const d = to_float(x[row * cols + col]) - mean[col];
    return d * d;
  }
};

template <class T>
struct WeightTerm {
  T const *dy, *x;
  float const *mean, *rstd;
  std::int64_t cols;
  __device__ float operator()(std::int64_t row, std::int64_t col) const {
    std::int64_t const i = row * cols + col;
    return to_float(dy[i]) * (to_float(x[i]) - mean[col]) * rstd[col];
  }
};

/// Sums become means, or sums of squared deviations reciprocal deviations.
struct Finish {
  float* values;
  float share, eps;
  bool deviation;

  template <int width>
  __device__ void at(std::int64_t i) const {
    for (int j = 0; j < width; ++j) {
      float const mean = values[i + j] * share;
      values[i + j] = deviation ? rsqrtf(mean + eps) : mean;
    }
  }
};

template <class T>
struct Normalise {
  T const *x, *weight, *bias;
  float const *mean, *rstd;
  T* y;
  std::int64_t cols;

  template <int width>
  __device__ void at(std::int64_t i) const {
    std::int64_t const c = i % cols;
    float value[width], w[width], b[width];
    load<width>(x + i, value);
    load<width>(weight + c, w);
    load<width>(bias + c, b);
    for (int j = 0; j < width; ++j) value[j] = (value[j] - mean[c + j]) * rstd[c + j] * w[j] + b[j];
    store<width>(y + i, value);
  }
};

template <class T>
struct InputGradient {
  T const *dy, *x, *weight;
  float const *mean, *rstd, *sums;
  T* dx;
  std::int64_t cols;
  float share;

  template <int width>
  __device__ void at(std::int64_t i) const {
    std::int64_t const c = i % cols;
    float gradient[width], value[width], w[width];
    load<width>(dy + i, gradient);
    load<width>(x + i, value);
    load<width>(weight + c, w);
    for (int j = 0; j < width; ++j) {
      float const unit = (value[j] - mean[c + j]) * rstd[c + j];
      gradient[j] = rstd[c + j] * w[j] * (gradient[j] - share * (sums[cols + c + j] + unit * sums[c + j]));
    }
    store<width>(dx + i, gradient);
  }
};

/// dweight and dbias take this call's sums.
struct Join {
  float const* sums;
  float *dweight, *dbias;
  std::int64_t cols;
  bool accumulate;

  template <int width>
  __device__ void at(std::int64_t c) const {
    for (int j = 0; j < width; ++j) {
      dweight[c + j] = sums[c + j] + (accumulate ? dweight[c + j] : 0.0f);
      dbias[c + j] = sums[cols + c + j] + (accumulate ? dbias[c + j] : 0.0f);
    }
  }
};

std::size_t floats(std::int64_t count) { return count * sizeof(float); }

}  // namespace

void batch_norm_forward(Stream& stream, BatchNormForwardArgs const& a) {
  if (a.rows == 0) return;
  CudaStream& queue = cuda_stream(stream);
  std::size_t const whole = span_bytes(a.rows, a.cols, a.cols, bytes_of(a.dtype));
  std::size_t const row = a.cols * bytes_of(a.dtype);
  float const share = 1.0f / static_cast<float>(a.rows);
  declare_access(stream.native(), {reads(a.x, whole), reads(a.weight, row), reads(a.bias, row), writes(a.y, whole),
                                   writes(a.mean, floats(a.cols)), writes(a.rstd, floats(a.cols))});
  with_float_type(a.dtype, [&](auto element) {
    using T = decltype(element);
    auto const *x = static_cast<T const*>(a.x), *weight = static_cast<T const*>(a.weight),
               *bias = static_cast<T const*>(a.bias);
    sum_columns(queue, Value<T>{x, a.cols}, a.mean, a.rows, a.cols, false);
    for_each<1>(Finish{a.mean, share, 0.0f, false}, a.cols, false, queue);
    sum_columns(queue, SquaredDeviation<T>{x, a.mean, a.cols}, a.rstd, a.rows, a.cols, false);
    for_each<1>(Finish{a.rstd, share, a.eps, true}, a.cols, false, queue);
    Normalise<T> const body{x, weight, bias, a.mean, a.rstd, static_cast<T*>(a.y), a.cols};
    bool const wide = a.cols % pack_width<T> == 0 && all_aligned(a.x, a.weight, a.bias, a.y);
    for_each<pack_width<T>>(body, a.rows * a.cols, wide, queue);
  });
}

void batch_norm_backward(Stream& stream, BatchNormBackwardArgs const& a) {
  CudaStream& queue = cuda_stream(stream);
  std::size_t const whole = span_bytes(a.rows, a.cols, a.cols, bytes_of(a.dtype));
  declare_access(stream.native(), {reads(a.dy, whole), reads(a.x, whole), reads(a.weight, a.cols * bytes_of(a.dtype)),
                                   reads(a.mean, floats(a.cols)), reads(a.rstd, floats(a.cols)), writes(a.dx, whole),
                                   writes(a.dweight, floats(a.cols)), writes(a.dbias, floats(a.cols)),
                                   writes(a.sums, floats(2 * a.cols))});
  with_float_type(a.dtype, [&](auto element) {
    using T = decltype(element);
    auto const *dy = static_cast<T const*>(a.dy), *x = static_cast<T const*>(a.x),
               *weight = static_cast<T const*>(a.weight);
    sum_columns(queue, WeightTerm<T>{dy, x, a.mean, a.rstd, a.cols}, a.sums, a.rows, a.cols, false);
    sum_columns(queue, Value<T>{dy, a.cols}, a.sums + a.cols, a.rows, a.cols, false);
    float const share = a.rows > 0 ? 1.0f / static_cast<float>(a.rows) : 0.0f;
    InputGradient<T> const body{dy, x, weight, a.mean, a.rstd, a.sums, static_cast<T*>(a.dx), a.cols, share};
    bool const wide = a.cols % pack_width<T> == 0 && all_aligned(a.dy, a.x, a.weight, a.dx);
    for_each<pack_width<T>>(body, a.rows * a.cols, wide, queue);
    for_each<1>(Join{a.sums, a.dweight, a.dbias, a.cols, a.accumulate}, a.cols, false, queue);
  });
}

}  // namespace shardbench::cuda
