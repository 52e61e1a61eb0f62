#include "kernels/core/cuda/reduce.hpp"
#include "kernels/core/cuda/vec.hpp"
#include "kernels/kernel_set_cuda.hpp"

namespace shardbench::cuda {
namespace {

// The reductions of reduce.hpp are in float; counts are added as integers.

/// How many threads before this one, and how many of the block, have `mine` set.
struct BlockCount {
  int earlier = 0, total = 0;
};

__device__ BlockCount count_block(bool mine) {
  __shared__ int flags[largest_block];
  __shared__ int warps[largest_block / warp_threads];
  unsigned const lane = threadIdx.x % warp_threads, warp = threadIdx.x / warp_threads;
  flags[threadIdx.x] = mine ? 1 : 0;
  __syncthreads();
  BlockCount count;
  int in_warp = 0;
  for (unsigned l = 0; l < warp_threads; ++l) {
    in_warp += flags[warp * warp_threads + l];
    if (l < lane) count.earlier += flags[warp * warp_threads + l];
  }
  if (lane == 0) warps[warp] = in_warp;
  __syncthreads();
  for (unsigned w = 0; w < blockDim.x / warp_threads; ++w) {
    count.total += warps[w];
    if (w < warp) count.earlier += warps[w];
  }
  __syncthreads();  // both arrays may be written again
  return count;
}

/// Sum over the block of an integer of each thread; every thread gets it.
__device__ std::int64_t sum_block(std::int64_t value) {
  __shared__ std::int64_t warps[largest_block / warp_threads];
  for (int mask = 16; mask > 0; mask >>= 1) value += __shfl_xor_sync(0xffffffffu, value, mask);
  if (threadIdx.x % warp_threads == 0) warps[threadIdx.x / warp_threads] = value;
  __syncthreads();
  std::int64_t sum = 0;
  for (unsigned w = 0; w < blockDim.x / warp_threads; ++w) sum += warps[w];
  __syncthreads();
  return sum;
}

/// Rows of an expert that pieces ahead of a token chose.
__device__ std::int64_t chosen_ahead(ExpertRowsArgs const& args, std::int64_t expert, std::int64_t token) {
  std::int64_t rows = 0;
  for (std::int64_t b = 0; b < args.earlier; ++b)
    if (!args.from || args.from[b] <= token) rows += args.before[b * args.experts + expert];
  return rows;
}

/// One block an expert: where each of its entries stands among them, and how many it keeps.
__global__ void positions_kernel(ExpertRowsArgs args) {
  std::int64_t const expert = blockIdx.x, entries = args.tokens * args.top_k, local = args.experts / args.ranks;
  std::int64_t found = 0, kept = 0;
  for (std::int64_t first = 0; first < entries; first += blockDim.x) {
    std::int64_t const i = first + threadIdx.x;
    bool const mine = i < entries && args.indices[i] == expert;
    BlockCount const count = count_block(mine);
    std::int64_t const position = found + count.earlier;
    // What is ahead of a token only grows, so those kept are the first ones and keep their places.
    bool const keeps =
        mine && (args.capacity == 0 || position + chosen_ahead(args, expert, i / args.top_k) < args.capacity);
    if (mine) args.rows[i * args.copies] = keeps ? static_cast<std::int32_t>(position) : -1;
    found += count.total;
    kept += args.capacity == 0 ? count.total : count_block(keeps).total;
  }
  if (threadIdx.x >= 1) return;
  for (std::int64_t copy = 0; copy < args.copies; ++copy)
    args.counts[(expert / local * args.copies + copy) * local + expert % local] = static_cast<std::int32_t>(kept);
}

/// One block an expert: positions become rows, behind all rows that sort before them.
__global__ void rows_kernel(ExpertRowsArgs args) {
  std::int64_t const expert = blockIdx.x, entries = args.tokens * args.top_k, local = args.experts / args.ranks;
  std::int64_t const place = expert / local * args.copies * local + expert % local;
  std::int64_t before = 0, step = 0;  // rows before the first copy's, and from one copy's to the next
  for (std::int64_t v = threadIdx.x; v < place; v += blockDim.x) before += args.counts[v];
  for (std::int64_t l = threadIdx.x; l < local; l += blockDim.x) step += args.counts[place - expert % local + l];
  before = sum_block(before);
  step = sum_block(step);
  for (std::int64_t i = threadIdx.x; i < entries; i += blockDim.x) {
    if (args.indices[i] != expert) continue;
    std::int64_t const position = args.rows[i * args.copies];
    for (std::int64_t copy = 0; copy < args.copies; ++copy)
      args.rows[i * args.copies + copy] =
          position < 0 ? -1 : static_cast<std::int32_t>(before + copy * step + position);
  }
}

/// One block a chunk of rows with one source and one expert.
__global__ void source_rows_kernel(SourceRowsArgs args) {
  std::int64_t const source = blockIdx.y, expert = blockIdx.x, chunk = source * args.experts + expert;
  std::int64_t from = 0, to = 0;
  for (std::int64_t i = threadIdx.x; i < args.sources * args.experts; i += blockDim.x) {
    std::int64_t const s = i / args.experts, e = i % args.experts;
    if (i < chunk) from += args.counts[i];
    if (e < expert || (e == expert && s < source)) to += args.counts[i];
  }
  from = sum_block(from);
  to = sum_block(to);
  for (std::int64_t i = threadIdx.x; i < args.counts[chunk]; i += blockDim.x)
    args.rows[from + i] = static_cast<std::int32_t>(to + i);
}

template <class T>
struct Permute {
  PermuteArgs a;

  template <int width>
  __device__ void at(std::int64_t i) const {
    std::int64_t const entry = i / a.cols, col = i - entry * a.cols, row = a.rows ? a.rows[entry] : entry;
    if (row < 0) return;
    float value[width];
    load<width>(as<T>(a.x) + entry / a.slots * a.cols + col, value);
    float const weight = a.weights ? a.weights[entry / a.copies] : 1.0f;
    for (int j = 0; j < width; ++j) value[j] *= weight;
    store<width>(as<T>(a.out) + row * a.cols + col, value);
  }
};

template <class T>
struct Unpermute {
  UnpermuteArgs a;

  template <int width>
  __device__ void at(std::int64_t i) const {
    std::int64_t const token = i / a.cols, col = i - token * a.cols;
    float sum[width] = {}, value[width];
    for (std::int64_t entry = token * a.slots; entry < (token + 1) * a.slots; ++entry) {
      std::int64_t const row = a.rows ? a.rows[entry] : entry;
      if (row < 0) continue;
      load<width>(as<T>(a.x) + row * a.cols + col, value);
      float const weight = a.weights ? a.weights[entry / a.copies] : 1.0f;
      for (int j = 0; j < width; ++j) sum[j] += weight * value[j];
    }
    store<width>(as<T>(a.y) + i, sum);
  }
};

/// One block a token and weight.
template <class T>
__global__ void combine_weights_kernel(CombineWeightsArgs a) {
  std::int64_t const weight = blockIdx.x;
  float sum = 0;
  for (std::int64_t entry = weight * a.copies; entry < (weight + 1) * a.copies; ++entry) {
    std::int64_t const row = a.rows ? a.rows[entry] : entry, token = entry / a.slots;
    if (row < 0) continue;
    for (std::int64_t c = threadIdx.x; c < a.cols; c += blockDim.x)
      sum += to_float(as<T>(a.dy)[token * a.cols + c]) * to_float(as<T>(a.x)[row * a.cols + c]);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) a.dweights[weight] = sum;
}

template <class T>
std::size_t bytes(std::int64_t count) {
  return count * sizeof(T);
}

std::size_t row_bytes(std::int64_t rows, std::int64_t cols, Dtype dtype) {
  return span_bytes(rows, cols, cols, bytes_of(dtype));
}

}  // namespace

void expert_rows(Stream& stream, ExpertRowsArgs const& args) {
  std::int64_t const entries = args.tokens * args.top_k;
  std::size_t const count_bytes = bytes<std::int32_t>(args.experts * args.copies);
  declare_access(stream.native(),
                 {reads(args.indices, bytes<std::int32_t>(entries)),
                  reads(args.before, bytes<std::int32_t>(args.earlier * args.experts)),
                  reads(args.from, bytes<std::int32_t>(args.from ? args.earlier : 0)),
                  writes(args.rows, bytes<std::int32_t>(entries * args.copies)), writes(args.counts, count_bytes)});
  dim3 const grid(grid_of_rows(args.experts));
  launch(positions_kernel, grid, block_for(entries), cuda_stream(stream), args);
  launch(rows_kernel, grid, block_for(entries), cuda_stream(stream), args);
}

void source_rows(Stream& stream, SourceRowsArgs const& args) {
  if (args.total == 0) return;
  declare_access(stream.native(), {reads(args.counts, bytes<std::int32_t>(args.sources * args.experts)),
                                   writes(args.rows, bytes<std::int32_t>(args.total))});
  VALIDATE(args.sources <= 65535, std::to_string(args.sources) + " sources, a grid has at most 65535");
  launch(source_rows_kernel, dim3(grid_of_rows(args.experts), static_cast<unsigned>(args.sources)), largest_block,
         cuda_stream(stream), args);
}

void permute(Stream& stream, PermuteArgs const& args) {
  std::int64_t const entries = args.tokens * args.slots;
  declare_access(
      stream.native(),
      {reads(args.x, row_bytes(args.tokens, args.cols, args.dtype)), reads(args.rows, bytes<std::int32_t>(entries)),
       reads(args.weights, bytes<float>(entries / args.copies)),
       writes(args.out, row_bytes(args.rows ? args.sorted : entries, args.cols, args.dtype))});
  for_each_element<Permute>(stream, args, entries * args.cols, args.cols, {args.x, args.out});
}

void unpermute(Stream& stream, UnpermuteArgs const& args) {
  std::int64_t const entries = args.tokens * args.slots;
  declare_access(stream.native(), {reads(args.x, row_bytes(args.rows ? args.sorted : entries, args.cols, args.dtype)),
                                   reads(args.rows, bytes<std::int32_t>(entries)),
                                   reads(args.weights, bytes<float>(entries / args.copies)),
                                   writes(args.y, row_bytes(args.tokens, args.cols, args.dtype))});
  for_each_element<Unpermute>(stream, args, args.tokens * args.cols, args.cols, {args.x, args.y});
}

void combine_weights(Stream& stream, CombineWeightsArgs const& args) {
  std::int64_t const entries = args.tokens * args.slots;
  if (entries == 0) return;
  declare_access(stream.native(), {reads(args.dy, row_bytes(args.tokens, args.cols, args.dtype)),
                                   reads(args.x, row_bytes(args.rows ? args.sorted : entries, args.cols, args.dtype)),
                                   reads(args.rows, bytes<std::int32_t>(entries)),
                                   writes(args.dweights, bytes<float>(entries / args.copies))});
  with_float_type(args.dtype, [&](auto type) {
    using T = decltype(type);
    launch(combine_weights_kernel<T>, dim3(grid_of_rows(entries / args.copies)), block_for(args.cols),
           cuda_stream(stream), args);
  });
}

}  // namespace shardbench::cuda
