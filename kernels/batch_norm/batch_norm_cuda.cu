#include "kernels/core/cuda/column_sum.hpp"
#include "kernels/core/cuda/vec.hpp"
#include "kernels/kernel_set_cuda.hpp"

namespace shardbench::cuda {
namespace {

template <class T>
struct SquaredDeviation {
  BatchNormForwardArgs a;
  __device__ float operator()(std::int64_t row, std::int64_t col) const {
    float const d = to_float(as<T>(a.x)[row * a.cols + col]) - a.mean[col];
    return d * d;
  }
};

template <class T>
struct WeightTerm {
  BatchNormBackwardArgs a;
  __device__ float operator()(std::int64_t row, std::int64_t col) const {
    std::int64_t const i = row * a.cols + col;
    return to_float(as<T>(a.dy)[i]) * (to_float(as<T>(a.x)[i]) - a.mean[col]) * a.rstd[col];
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
  BatchNormForwardArgs a;

  template <int width>
  __device__ void at(std::int64_t i) const {
    std::int64_t const c = i % a.cols;
    float value[width], w[width], b[width];
    load<width>(as<T>(a.x) + i, value);
    load<width>(as<T>(a.weight) + c, w);
    load<width>(as<T>(a.bias) + c, b);
    for (int j = 0; j < width; ++j) value[j] = (value[j] - a.mean[c + j]) * a.rstd[c + j] * w[j] + b[j];
    store<width>(as<T>(a.y) + i, value);
  }
};

template <class T>
struct InputGradient {
  BatchNormBackwardArgs a;
  float share;

  template <int width>
  __device__ void at(std::int64_t i) const {
    std::int64_t const c = i % a.cols;
    float gradient[width], value[width], w[width];
    load<width>(as<T>(a.dy) + i, gradient);
    load<width>(as<T>(a.x) + i, value);
    load<width>(as<T>(a.weight) + c, w);
    for (int j = 0; j < width; ++j) {
      float const unit = (value[j] - a.mean[c + j]) * a.rstd[c + j];
      gradient[j] = a.rstd[c + j] * w[j] * (gradient[j] - share * (a.sums[a.cols + c + j] + unit * a.sums[c + j]));
    }
    store<width>(as<T>(a.dx) + i, gradient);
  }
};

/// dweight and dbias take this call's sums.
struct Join {
  BatchNormBackwardArgs a;

  template <int width>
  __device__ void at(std::int64_t c) const {
    for (int j = 0; j < width; ++j) {
      a.dweight[c + j] = a.sums[c + j] + (a.accumulate ? a.dweight[c + j] : 0.0f);
      a.dbias[c + j] = a.sums[a.cols + c + j] + (a.accumulate ? a.dbias[c + j] : 0.0f);
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
    sum_columns(queue, Element<T>{as<T>(a.x), a.cols}, a.mean, a.rows, a.cols, false);
    for_each<1>(Finish{a.mean, share, 0.0f, false}, a.cols, false, queue);
    sum_columns(queue, SquaredDeviation<T>{a}, a.rstd, a.rows, a.cols, false);
    for_each<1>(Finish{a.rstd, share, a.eps, true}, a.cols, false, queue);
  });
  for_each_element<Normalise>(stream, a, a.rows * a.cols, a.cols, {a.x, a.weight, a.bias, a.y});
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
    sum_columns(queue, WeightTerm<T>{a}, a.sums, a.rows, a.cols, false);
    sum_columns(queue, Element<T>{as<T>(a.dy), a.cols}, a.sums + a.cols, a.rows, a.cols, false);
  });
  float const share = a.rows > 0 ? 1.0f / static_cast<float>(a.rows) : 0.0f;
  for_each_element<InputGradient>(stream, a, a.rows * a.cols, a.cols, {a.dy, a.x, a.weight, a.dx}, share);
  for_each<1>(Join{a}, a.cols, false, queue);
}

}  // namespace shardbench::cuda
