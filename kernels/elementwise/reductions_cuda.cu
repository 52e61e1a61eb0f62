#include "kernels/core/cuda/column_sum.hpp"
#include "kernels/core/cuda/reduce.hpp"
#include "kernels/core/cuda/vec.hpp"
#include "kernels/kernel_set_cuda.hpp"

namespace shardbench::cuda {
namespace {

constexpr unsigned most_partials = 512;

/// partials[block] = sum of squares of what the block's threads come by.
template <class T, int width>
__global__ void square_partials_kernel(T const* x, float* partials, std::int64_t count) {
  std::int64_t const thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  std::int64_t const threads = std::int64_t{gridDim.x} * blockDim.x, packs = count / width;
  float sum = 0;
  for (std::int64_t p = thread; p < packs; p += threads) {
    float value[width];
    load<width>(x + p * width, value);
    for (int j = 0; j < width; ++j) sum += value[j] * value[j];
  }
  for (std::int64_t i = packs * width + thread; i < count; i += threads) sum += to_float(x[i]) * to_float(x[i]);
  sum = block_sum(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

__global__ void total_kernel(float const* partials, unsigned count, float* out, bool accumulate) {
  float sum = 0;
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) sum += partials[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *out = sum + (accumulate ? *out : 0.0f);
}

}  // namespace

void column_sum(Stream& stream, ColumnSumArgs const& args) {
  declare_access(stream.native(), {reads(args.x, span_bytes(args.rows, args.cols, args.cols, bytes_of(args.dtype)))});
  with_float_type(args.dtype, [&](auto element) {
    using T = decltype(element);
    sum_columns(cuda_stream(stream), Element<T>{as<T>(args.x), args.cols}, args.sums, args.rows, args.cols,
                args.accumulate);
  });
}

void square_sum(Stream& stream, SquareSumArgs const& args) {
  CudaStream& queue = cuda_stream(stream);
  auto* const partials = reinterpret_cast<float*>(queue.scratch().data);
  declare_access(stream.native(), {reads(args.x, args.count * bytes_of(args.dtype)),
                                   writes(partials, most_partials * sizeof(float)), writes(args.out, sizeof(float))});
  with_float_type(args.dtype, [&](auto element) {
    using T = decltype(element);
    constexpr int width = pack_width<T>;
    std::int64_t const packs = args.count / width + 1;
    unsigned const block = block_for(packs), grid = std::min(grid_for(packs, block), most_partials);
    auto const* x = static_cast<T const*>(args.x);
    auto const kernel = all_aligned(args.x) ? square_partials_kernel<T, width> : square_partials_kernel<T, 1>;
    launch(kernel, dim3(grid), block, queue, x, partials, args.count);
    launch(total_kernel, dim3(1), largest_block, queue, partials, grid, args.out, args.accumulate);
  });
}

}  // namespace shardbench::cuda
