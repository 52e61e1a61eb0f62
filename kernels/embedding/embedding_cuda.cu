#include "kernels/core/cuda/vec.hpp"
#include "kernels/kernel_set_cuda.hpp"

namespace shardbench::cuda {
namespace {

template <class T>
struct Gather {
  std::int32_t const* ids;
  T const* weight;
  T* out;
  std::int64_t rows, cols, first_row;
  bool accumulate;
  float scale;

  template <int width>
  __device__ void at(std::int64_t i) const {
    std::int64_t const token = i / cols, col = i - token * cols, row = ids[token] - first_row;
    float value[width] = {}, before[width];
    if (row >= 0 && row < rows) load<width>(weight + row * cols + col, value);
    for (int j = 0; j < width; ++j) value[j] *= scale;
    if (accumulate) {
      load<width>(out + i, before);
      for (int j = 0; j < width; ++j) value[j] += before[j];
    }
    store<width>(out + i, value);
  }
};

constexpr unsigned scatter_block = 128;

/// One block a token and column range. The block of a row's first token adds all of the row's tokens, in order, so the
/// result repeats bit by bit without sorting and without atomics.
template <class T>
__global__ void scatter_kernel(std::int32_t const* ids, T const* dout, float* dweight, std::int64_t tokens,
                               std::int64_t rows, std::int64_t cols, std::int64_t first_row, float scale) {
  __shared__ std::int32_t later[scatter_block];
  std::int64_t const token = blockIdx.x;
  std::int32_t const id = ids[token];
  std::int64_t const row = id - first_row;
  if (row < 0 || row >= rows) return;  // the same for the whole block
  int seen = 0;
  for (std::int64_t t = threadIdx.x; t < token; t += blockDim.x) seen |= ids[t] == id;
  if (__syncthreads_or(seen)) return;
  std::int64_t const col = std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x;
  float sum = col < cols ? dweight[row * cols + col] : 0.0f;
  for (std::int64_t first = token; first < tokens; first += blockDim.x) {
    std::int64_t const mine = first + threadIdx.x;
    later[threadIdx.x] = mine < tokens ? ids[mine] : id - 1;
    __syncthreads();
    for (unsigned t = 0; t < blockDim.x && col < cols; ++t)
      if (later[t] == id) sum += scale * to_float(dout[(first + t) * cols + col]);
    __syncthreads();
  }
  if (col < cols) dweight[row * cols + col] = sum;
}

}  // namespace

void embedding_forward(Stream& stream, EmbeddingForwardArgs const& args) {
  std::size_t const element = bytes_of(args.dtype);
  declare_access(stream.native(), {reads(args.ids, args.tokens * sizeof(std::int32_t)),
                                   reads(args.weight, span_bytes(args.rows, args.cols, args.cols, element)),
                                   writes(args.out, span_bytes(args.tokens, args.cols, args.cols, element))});
  with_float_type(args.dtype, [&](auto type) {
    using T = decltype(type);
    Gather<T> const body{args.ids,
                         static_cast<T const*>(args.weight),
                         static_cast<T*>(args.out),
                         args.rows,
                         args.cols,
                         args.first_row,
                         args.accumulate,
                         args.scale};
    bool const wide = args.cols % pack_width<T> == 0 && all_aligned(args.weight, args.out);
    for_each<pack_width<T>>(body, args.tokens * args.cols, wide, cuda_stream(stream));
  });
}

void embedding_backward(Stream& stream, EmbeddingBackwardArgs const& args) {
  CudaStream& queue = cuda_stream(stream);
  std::size_t const weight_bytes = args.rows * args.cols * sizeof(float);
  if (weight_bytes == 0) return;
  declare_access(stream.native(),
                 {reads(args.ids, args.tokens * sizeof(std::int32_t)),
                  reads(args.dout, span_bytes(args.tokens, args.cols, args.cols, bytes_of(args.dtype))),
                  writes(args.dweight, weight_bytes)});
  if (!args.accumulate) CUDA_CHECK(cudaMemsetAsync(args.dweight, 0, weight_bytes, queue.get()));
  if (args.tokens == 0) return;
  with_float_type(args.dtype, [&](auto type) {
    using T = decltype(type);
    auto const column_blocks = static_cast<unsigned>((args.cols + scatter_block - 1) / scatter_block);
    launch(scatter_kernel<T>, dim3(grid_of_rows(args.tokens), column_blocks), scatter_block, queue, args.ids,
           static_cast<T const*>(args.dout), args.dweight, args.tokens, args.rows, args.cols, args.first_row,
           args.scale);
  });
}

}  // namespace shardbench::cuda
