#include "kernels/core/cuda/column_sum.hpp"
#include "kernels/core/cuda/reduce.hpp"
#include "kernels/core/cuda/vec.hpp"
#include "kernels/kernel_set_cuda.hpp"

namespace shardbench::cuda {
namespace {

/// Adds the residual (as stored, rounded), or just reads; returns this thread's share of the row's sum.
template <int width, class T>
__device__ float add_residual(std::int64_t cols, T const* x, T const* residual, T* sum) {
  float total = 0;
  for (std::int64_t c = std::int64_t{threadIdx.x} * width; c < cols; c += std::int64_t{blockDim.x} * width) {
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
__global__ void norm_forward_kernel(NormForwardArgs f) {
  bool const centred = f.kind == NormKind::layer_norm;
  std::int64_t const row = blockIdx.x;
  T const* const x = as<T>(f.x) + vector_offset(row, f.heads, f.cols, f.x_stride);
  T* const y = as<T>(f.y) + vector_offset(row, f.heads, f.cols, f.y_stride);
  T* const sum = f.residual ? as<T>(f.sum) + row * f.cols : nullptr;
  T const* const from = f.residual ? sum : x;
  float total = 0;
  if (centred || f.residual)
    total = add_residual<width>(f.cols, x, f.residual ? as<T>(f.residual) + row * f.cols : nullptr, sum);
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
    load<width>(as<T>(f.weight) + c, weight);
    if (f.bias) load<width>(as<T>(f.bias) + c, bias);
    for (int j = 0; j < width; ++j)
      value[j] = (value[j] - mean) * rstd * (weight[j] + f.weight_offset) + (f.bias ? bias[j] : 0.0f);
    store<width>(y + c, value);
  }
  if (threadIdx.x != 0) return;
  if (f.mean) f.mean[row] = mean;
  if (f.rstd) f.rstd[row] = rstd;
}

/// One block a row: the two means over the row, then dx.
template <class T, int width>
__global__ void norm_backward_kernel(NormBackwardArgs b) {
  bool const centred = b.kind == NormKind::layer_norm;
  std::int64_t const row = blockIdx.x;
  T const* const dy = as<T>(b.dy) + vector_offset(row, b.heads, b.cols, b.y_stride);
  std::int64_t const x_at = vector_offset(row, b.heads, b.cols, b.x_stride);
  T const* const x = as<T>(b.x) + x_at;
  float const mean = centred ? b.mean[row] : 0.0f, rstd = b.rstd[row];
  std::int64_t const first = std::int64_t{threadIdx.x} * width, step = std::int64_t{blockDim.x} * width;
  float sum_scaled = 0, sum_product = 0;
  for (std::int64_t c = first; c < b.cols; c += step) {
    float gradient[width], value[width], weight[width];
    load<width>(dy + c, gradient);
    load<width>(x + c, value);
    load<width>(as<T>(b.weight) + c, weight);
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
    load<width>(as<T>(b.weight) + c, weight);
    if (b.dsum) load<width>(as<T>(b.dsum) + x_at + c, arriving);
    for (int j = 0; j < width; ++j) {
      float const scaled = gradient[j] * (weight[j] + b.weight_offset), normalised = (value[j] - mean) * rstd;
      value[j] = rstd * (scaled - mean_scaled - normalised * mean_product) + (b.dsum ? arriving[j] : 0.0f);
    }
    store<width>(as<T>(b.dx) + x_at + c, value);
  }
}

template <class T, bool normalised>
struct WeightGradient {
  NormBackwardArgs b;
  __device__ float operator()(std::int64_t row, std::int64_t col) const {
    float const gradient = to_float(as<T>(b.dy)[vector_offset(row, b.heads, b.cols, b.y_stride) + col]);
    if constexpr (!normalised) return gradient;
    float const value = to_float(as<T>(b.x)[vector_offset(row, b.heads, b.cols, b.x_stride) + col]);
    return gradient * (value - (b.kind == NormKind::layer_norm ? b.mean[row] : 0.0f)) * b.rstd[row];
  }
};

/// Starts a kernel with one block a row and head: packs where all is aligned, elements where not.
template <class T, class Args>
void launch_rows(CudaStream& stream, void (*packs)(Args), void (*elements)(Args), Args const& a, bool aligned) {
  constexpr int width = pack_width<T>;
  bool const wide = aligned && a.cols % width == 0 && a.x_stride % width == 0 && a.y_stride % width == 0;
  launch(wide ? packs : elements, dim3(grid_of_rows(a.rows * a.heads)), block_for(a.cols / (wide ? width : 1)), stream,
         a);
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
  bool const aligned = all_aligned(args.x, args.residual, args.sum, args.weight, args.bias, args.y);
  with_float_type(args.dtype, [&](auto type) {
    using T = decltype(type);
    launch_rows<T>(cuda_stream(stream), norm_forward_kernel<T, pack_width<T>>, norm_forward_kernel<T, 1>, args,
                   aligned);
  });
}

void norm_backward(Stream& stream, NormBackwardArgs const& args) {
  if (args.cols == 0) return;
  std::size_t const element = bytes_of(args.dtype), floats = args.rows * args.heads * sizeof(float);
  std::size_t const x_bytes = span_bytes(args.rows, args.heads * args.cols, args.x_stride, element);
  declare_access(stream.native(),
                 {reads(args.dy, span_bytes(args.rows, args.heads * args.cols, args.y_stride, element)),
                  reads(args.x, x_bytes), reads(args.weight, args.cols * element), reads(args.mean, floats),
                  reads(args.rstd, floats), reads(args.dsum, x_bytes), writes(args.dx, x_bytes)});
  bool const aligned = all_aligned(args.dy, args.x, args.weight, args.dsum, args.dx);
  with_float_type(args.dtype, [&](auto type) {
    using T = decltype(type);
    auto const sum = [&](auto const& gradient, float* sums) {
      sum_columns(cuda_stream(stream), gradient, sums, args.rows * args.heads, args.cols, args.accumulate);
    };
    // Before dx, which may lie where x or dy did.
    if (args.dweight) sum(WeightGradient<T, true>{args}, args.dweight);
    if (args.dweight && args.dbias) sum(WeightGradient<T, false>{args}, args.dbias);
    if (args.rows == 0) return;
    launch_rows<T>(cuda_stream(stream), norm_backward_kernel<T, pack_width<T>>, norm_backward_kernel<T, 1>, args,
                   aligned);
  });
}

}  // namespace shardbench::cuda
