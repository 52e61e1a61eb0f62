#include "kernels/core/cuda/reduce.hpp"
#include "kernels/core/cuda/vec.hpp"
#include "kernels/kernel_set_cuda.hpp"

namespace shardbench::cuda {
namespace {

/// One block a row: the maximum, then the lowest column that has it.
template <class T>
__global__ void best_token_kernel(BestTokenArgs a, std::int64_t valid) {
  T const* const row = as<T>(a.logits) + std::int64_t{blockIdx.x} * a.columns;
  float highest = -INFINITY;
  for (std::int64_t c = threadIdx.x; c < valid; c += blockDim.x) highest = fmaxf(highest, to_float(row[c]));
  highest = block_max(highest);
  // The lowest column is the largest of their negatives; columns stay exact in a float.
  float lowest = -INFINITY;
  for (std::int64_t c = threadIdx.x; c < valid; c += blockDim.x)
    if (to_float(row[c]) == highest) lowest = fmaxf(lowest, -static_cast<float>(c));
  lowest = block_max(lowest);
  if (threadIdx.x != 0) return;
  a.best[2 * blockIdx.x] = highest;
  a.best[2 * blockIdx.x + 1] = static_cast<float>(a.first_column) - (lowest > -INFINITY ? lowest : 0.0f);
}

struct PickToken {
  PickTokenArgs a;

  template <int width>
  __device__ void at(std::int64_t r) const {
    static_assert(width == 1);
    float highest = a.best[2 * r], column = a.best[2 * r + 1];
    for (std::int64_t p = 1; p < a.parts; ++p) {
      float const* const one = a.best + 2 * (p * a.rows + r);
      if (one[0] > highest) {
        highest = one[0];
        column = one[1];
      }
    }
    a.tokens[r] = static_cast<std::int32_t>(column);
  }
};

std::size_t best_bytes(std::int64_t rows) { return rows * 2 * sizeof(float); }

}  // namespace

void best_token(Stream& stream, BestTokenArgs const& args) {
  if (args.rows == 0) return;
  std::int64_t const valid = std::clamp<std::int64_t>(args.valid_vocab - args.first_column, 0, args.columns);
  declare_access(stream.native(),
                 {reads(args.logits, span_bytes(args.rows, args.columns, args.columns, bytes_of(args.dtype))),
                  writes(args.best, best_bytes(args.rows))});
  with_float_type(args.dtype, [&](auto type) {
    launch(best_token_kernel<decltype(type)>, dim3(grid_of_rows(args.rows)), block_for(args.columns),
           cuda_stream(stream), args, valid);
  });
}

void pick_token(Stream& stream, PickTokenArgs const& args) {
  if (args.rows == 0) return;
  declare_access(stream.native(), {reads(args.best, best_bytes(args.parts * args.rows)),
                                   writes(args.tokens, args.rows * sizeof(std::int32_t))});
  for_each<1>(PickToken{args}, args.rows, false, cuda_stream(stream));
}

}  // namespace shardbench::cuda
