#include "kernels/core/cuda/column_sum.hpp"
#include "kernels/core/cuda/reduce.hpp"
#include "kernels/core/cuda/vec.hpp"
#include "kernels/kernel_set_cuda.hpp"

namespace shardbench::cuda {
namespace {

template <class T>
struct Forward {
  T const *x, *residual;
  T* sum;
  T const *weight, *bias;
  T* y;
  float *mean, *rstd;
  std::int64_t cols, x_stride, y_stride, heads;
  float eps, weight_offset;
};

/// Adds the residual (as stored, rounded), or just reads; returns this thread's share of the row's sum.
template <int width, class T>
__device__ float add_residual(Forward<T> const& f, T const* x, T const* residual, T* sum) {
  float total = 0;
  for (std::int64_t c = std::int64_t{threadIdx.x} * width; c < f.cols; c += std::int64_t{blockDim.x} * width) {
    float value[width], other[width];
    load<width>(x + c, value);
    if (residual) {
      load<width>(residual + c, other);
      for (int j = 0; j < width; ++j) value[j] = to_float(from_float<T>(value[j] + other[j]));
      store<width>(sum + c, value);
    }
    for (int j = 0; j < width; ++j) total += value[j];
  }
  return total;
}

/// One block a row: residual and mean, squares about the mean, output. The row stays in cache between the passes.
template <class T, int width>
__global__ void norm_forward_kernel(Forward<T> f, bool centred) {
  std::int64_t const row = blockIdx.x;
  T const* const x = f.x + vector_offset(row, f.heads, f.cols, f.x_stride);
  T* const y = f.y + vector_offset(row, f.heads, f.cols, f.y_stride);
  T* const sum = f.residual ? f.sum + row * f.cols : nullptr;
  T const* const from = f.residual ? sum : x;
  float total = 0;
  if (centred || f.residual) total = add_residual<width>(f, x, f.residual ? f.residual + row * f.cols : nullptr, sum);
  float const mean = centred ? block_sum(total) / static_cast<float>(f.cols) : 0.0f;
  float squares = 0;
  std::int64_t const first = std::int64_t{threadIdx.x} * width, step = std::int64_t{blockDim.x} * width;
  for (std::int64_t c = first; c < f.cols; c += step) {  // each thread reads back only what it wrote itself
    float value[width];
    load<width>(from + c, value);
    for (int j = 0; j < width; ++j) squares += (value[j] - mean) * (value[j] - mean);
  }
  float const rstd = rsqrtf(block_sum(squares) / static_cast<float>(f.cols) + f.eps);
  for (std::int64_t c = first; c < f.cols; c += step) {
    float value[width], weight[width], bias[width];
    load<width>(from + c, value);
    load<width>(f.weight + c, weight);
    if (f.bias) load<width>(f.bias + c, bias);
    for (int j = 0; j < width; ++j)
      value[j] = (value[j] - mean) * rstd * (weight[j] + f.weight_offset) + (f.bias ? bias[j] : 0.0f);
    store<width>(y + c, value);
  }
  if (threadIdx.x != 0) return;
  if (f.mean) f.mean[row] = mean;
  if (f.rstd) f.rstd[row] = rstd;
}

template <class T>
struct Backward {
  T const *dy, *x, *weight;
  float const *mean, *rstd;
  T const* dsum;
  T* dx;
  std::int64_t cols, x_stride, y_stride, heads;
  float weight_offset;
};

/// One block a row: the two means over the row, then dx.
template <class T, int width>
__global__ void norm_backward_kernel(Backward<T> b, bool centred) {
  std::int64_t const row = blockIdx.x;
  T const* const dy = b.dy + vector_offset(row, b.heads, b.cols, b.y_stride);
  std::int64_t const x_at = vector_offset(row, b.heads, b.cols, b.x_stride);
  T const* const x = b.x + x_at;
  float const mean = centred ? b.mean[row] : 0.0f, rstd = b.rstd[row];
  std::int64_t const first = std::int64_t{threadIdx.x} * width, step = std::int64_t{blockDim.x} * width;
  float sum_scaled = 0, sum_product = 0;
  for (std::int64_t c = first; c < b.cols; c += step) {
    float gradient[width], value[width], weight[width];
    load<width>(dy + c, gradient);
    load<width>(x + c, value);
    load<width>(b.weight + c, weight);
    for (int j = 0; j < width; ++j) {
      float const scaled = gradient[j] * (weight[j] + b.weight_offset);
      sum_scaled += scaled;
      sum_product += scaled * (value[j] - mean) * rstd;
    }
  }
  float const mean_scaled = centred ? block_sum(sum_scaled) / static_cast<float>(b.cols) : 0.0f;
  float const mean_product = block_sum(sum_product) / static_cast<float>(b.cols);
  for (std::int64_t c = first; c < b.cols; c += step) {
    float gradient[width], value[width], weight[width], arriving[width];
    load<width>(dy + c, gradient);
    load<width>(x + c, value);
    load<width>(b.weight + c, weight);
    if (b.dsum) load<width>(b.dsum + x_at + c, arriving);
    for (int j = 0; j < width; ++j) {
      float const scaled = gradient[j] * (weight[j] + b.weight_offset), normalised = (value[j] - mean) * rstd;
      value[j] = rstd * (scaled - mean_scaled - normalised * mean_product) + (b.dsum ? arriving[j] : 0.0f);
    }
    store<width>(b.dx + x_at + c, value);
  }
}

template <class T, bool normalised>
struct WeightGradient {
  T const *dy, *x;
  float const *mean, *rstd;
  std::int64_t x_stride, y_stride, heads, cols;
  __device__ float operator()(std::int64_t row, std::int64_t col) const {
    float const gradient = to_float(dy[vector_offset(row, heads, cols, y_stride) + col]);
    if constexpr (!normalised) return gradient;
    return gradient * (to_float(x[vector_offset(row, heads, cols, x_stride) + col]) - (mean ? mean[row] : 0.0f)) *
           rstd[row];
  }
};

template <class T>
bool strides_fit(std::int64_t cols, std::int64_t x_stride, std::int64_t y_stride) {
  constexpr int width = pack_width<T>;
  return cols % width == 0 && x_stride % width == 0 && y_stride % width == 0;
}

template <class T>
void forward(CudaStream& stream, NormForwardArgs const& a) {
  Forward<T> const f{static_cast<T const*>(a.x),
                     static_cast<T const*>(a.residual),
                     static_cast<T*>(a.sum),
                     static_cast<T const*>(a.weight),
                     static_cast<T const*>(a.bias),
                     static_cast<T*>(a.y),
                     a.mean,
                     a.rstd,
                     a.cols,
                     a.x_stride,
                     a.y_stride,
                     a.heads,
                     a.eps,
                     a.weight_offset};
  constexpr int width = pack_width<T>;
  bool const wide =
      strides_fit<T>(a.cols, a.x_stride, a.y_stride) && all_aligned(a.x, a.residual, a.sum, a.weight, a.bias, a.y);
  launch(wide ? norm_forward_kernel<T, width> : norm_forward_kernel<T, 1>, dim3(grid_of_rows(a.rows * a.heads)),
         block_for(a.cols / (wide ? width : 1)), stream, f, a.kind == NormKind::layer_norm);
}

template <class T>
void backward(CudaStream& stream, NormBackwardArgs const& a) {
  float const* const mean = a.kind == NormKind::layer_norm ? a.mean : nullptr;
  auto const* dy = static_cast<T const*>(a.dy);
  auto const* x = static_cast<T const*>(a.x);
  // Before dx, which may lie where x or dy did.
  if (a.dweight) {
    sum_columns(stream, WeightGradient<T, true>{dy, x, mean, a.rstd, a.x_stride, a.y_stride, a.heads, a.cols},
                a.dweight, a.rows * a.heads, a.cols, a.accumulate);
    if (a.dbias)
      sum_columns(stream, WeightGradient<T, false>{dy, x, mean, a.rstd, a.x_stride, a.y_stride, a.heads, a.cols},
                  a.dbias, a.rows * a.heads, a.cols, a.accumulate);
  }
  if (a.rows == 0) return;
  Backward<T> const b{dy,
                      x,
                      static_cast<T const*>(a.weight),
                      mean,
                      a.rstd,
                      static_cast<T const*>(a.dsum),
                      static_cast<T*>(a.dx),
                      a.cols,
                      a.x_stride,
                      a.y_stride,
                      a.heads,
                      a.weight_offset};
  constexpr int width = pack_width<T>;
  bool const wide = strides_fit<T>(a.cols, a.x_stride, a.y_stride) && all_aligned(a.dy, a.x, a.weight, a.dsum, a.dx);
  launch(wide ? norm_backward_kernel<T, width> : norm_backward_kernel<T, 1>, dim3(grid_of_rows(a.rows * a.heads)),
         block_for(a.cols / (wide ? width : 1)), stream, b, mean != nullptr);
}

}  // namespace

void norm_forward(Stream& stream, NormForwardArgs const& args) {
  if (args.rows == 0 || args.cols == 0) return;
  std::size_t const element = bytes_of(args.dtype), floats = args.rows * args.heads * sizeof(float);
  std::size_t const dense = span_bytes(args.rows, args.cols, args.cols, element);
  std::size_t const row = args.cols * element;
  declare_access(
      stream.native(),
      {reads(args.x, span_bytes(args.rows, args.heads * args.cols, args.x_stride, element)),
       reads(args.residual, dense), writes(args.residual ? args.sum : nullptr, dense), reads(args.weight, row),
       reads(args.bias, row), writes(args.y, span_bytes(args.rows, args.heads * args.cols, args.y_stride, element)),
       writes(args.mean, floats), writes(args.rstd, floats)});
  with_float_type(args.dtype, [&](auto type) { forward<decltype(type)>(cuda_stream(stream), args); });
}

void norm_backward(Stream& stream, NormBackwardArgs const& args) {
  if (args.cols == 0) return;
  std::size_t const element = bytes_of(args.dtype), floats = args.rows * args.heads * sizeof(float);
  std::size_t const x_bytes = span_bytes(args.rows, args.heads * args.cols, args.x_stride, element);
  declare_access(stream.native(),
                 {reads(args.dy, span_bytes(args.rows, args.heads * args.cols, args.y_stride, element)),
                  reads(args.x, x_bytes), reads(args.weight, args.cols * element), reads(args.mean, floats),
                  reads(args.rstd, floats), reads(args.dsum, x_bytes), writes(args.dx, x_bytes)});
  with_float_type(args.dtype, [&](auto type) { backward<decltype(type)>(cuda_stream(stream), args); });
}

}  // namespace shardbench::cuda
