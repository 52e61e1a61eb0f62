#include "kernels/core/cuda/vec.hpp"
#include "kernels/kernel_set_cuda.hpp"

namespace shardbench::cuda {
namespace {

template <class T>
struct Gather {
  EmbeddingForwardArgs a;

  template <int width>
  __device__ void at(std::int64_t i) const {
    std::int64_t const token = i / a.cols, col = i - token * a.cols, row = a.ids[token] - a.first_row;
    float value[width] = {}, before[width];
    if (row >= 0 && row < a.rows) load<width>(as<T>(a.weight) + row * a.cols + col, value);
    for (int j = 0; j < width; ++j) value[j] *= a.scale;
    if (a.accumulate) {
      load<width>(as<T>(a.out) + i, before);
      for (int j = 0; j < width; ++j) value[j] += before[j];
    }
    store<width>(as<T>(a.out) + i, value);
  }
};

constexpr unsigned scatter_block = 128;

/// One block a token and column range. The block of a row's first token adds all of the row's tokens, in order, so the
/// result repeats bit by bit without sorting and without atomics.
template <class T>
__global__ void scatter_kernel(EmbeddingBackwardArgs a) {
  __shared__ std::int32_t later[scatter_block];
  std::int64_t const token = blockIdx.x;
  std::int32_t const id = a.ids[token];
  std::int64_t const row = id - a.first_row;
  if (row < 0 || row >= a.rows) return;  // the same for the whole block
  int seen = 0;
  for (std::int64_t t = threadIdx.x; t < token; t += blockDim.x) seen |= a.ids[t] == id;
  if (__syncthreads_or(seen)) return;
  std::int64_t const col = std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x;
  float sum = col < a.cols ? a.dweight[row * a.cols + col] : 0.0f;
  for (std::int64_t first = token; first < a.tokens; first += blockDim.x) {
    std::int64_t const mine = first + threadIdx.x;
    later[threadIdx.x] = mine < a.tokens ? a.ids[mine] : id - 1;
    __syncthreads();
    for (unsigned t = 0; t < blockDim.x && col < a.cols; ++t)
      if (later[t] == id) sum += a.scale * to_float(as<T>(a.dout)[(first + t) * a.cols + col]);
    __syncthreads();
  }
  if (col < a.cols) a.dweight[row * a.cols + col] = sum;
}

}  // namespace

void embedding_forward(Stream& stream, EmbeddingForwardArgs const& args) {
  std::size_t const element = bytes_of(args.dtype);
  declare_access(stream.native(), {reads(args.ids, args.tokens * sizeof(std::int32_t)),
                                   reads(args.weight, span_bytes(args.rows, args.cols, args.cols, element)),
                                   writes(args.out, span_bytes(args.tokens, args.cols, args.cols, element))});
  for_each_element<Gather>(stream, args, args.tokens * args.cols, args.cols, {args.weight, args.out});
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
    launch(scatter_kernel<T>, dim3(grid_of_rows(args.tokens), column_blocks), scatter_block, queue, args);
  });
}

}  // namespace shardbench::cuda
