#include "kernels/attention/attention_math.hpp"
#include "kernels/core/cuda/vec.hpp"
#include "kernels/kernel_set_cuda.hpp"

namespace shardbench::cuda {
namespace {

/// Elements of the output; statistics are only read, every element of a head needs them as they were.
template <class T>
struct MergeOutputs {
  AttentionMergeArgs args;

  template <int width>
  __device__ void at(std::int64_t i) const {
    std::int64_t const cols = args.heads * args.value_dim, row = i / cols, column = i % cols;
    std::int64_t const line = row % args.batch * args.heads + column / args.value_dim, s = row / args.batch;
    MergeWeights const weights =
        merge_weights(args.log_sum_exp[line * statistic_stride(args) + s], args.block_log_sum_exp[line * args.seq + s]);
    T* const out = static_cast<T*>(args.out.data) + row * args.out.row_stride + column;
    T const block = static_cast<T const*>(args.block.data)[row * args.block.row_stride + column];
    *out = from_float<T>(weights.own * to_float(*out) + weights.block * to_float(block));
  }
};

/// The statistics, when all outputs are done.
struct MergeStatistics {
  AttentionMergeArgs args;

  template <int width>
  __device__ void at(std::int64_t i) const {
    float* const own = args.log_sum_exp + i / args.seq * statistic_stride(args) + i % args.seq;
    *own = merge_weights(*own, args.block_log_sum_exp[i]).log_sum_exp;
  }
};

}  // namespace

void attention_merge(Stream& stream, AttentionMergeArgs const& args) {
  std::int64_t const rows = args.seq * args.batch, cols = args.heads * args.value_dim;
  std::int64_t const lines = args.batch * args.heads;
  if (rows == 0 || lines == 0) return;
  CudaStream& queue = cuda_stream(stream);
  auto const statistics = span_bytes(lines, args.seq, statistic_stride(args), sizeof(float));
  auto const block_statistics = span_bytes(lines, args.seq, args.seq, sizeof(float));
  with_float_type(args.dtype, [&](auto type) {
    using T = decltype(type);
    declare_access(queue.native(),
                   {reads(args.block.data, span_bytes(rows, cols, args.block.row_stride, sizeof(T))),
                    writes(args.out.data, span_bytes(rows, cols, args.out.row_stride, sizeof(T))),
                    reads(args.log_sum_exp, statistics), reads(args.block_log_sum_exp, block_statistics)});
    for_each<1>(MergeOutputs<T>{args}, rows * cols, false, queue);
  });
  declare_access(queue.native(),
                 {writes(args.log_sum_exp, statistics), reads(args.block_log_sum_exp, block_statistics)});
  for_each<1>(MergeStatistics{args}, lines * args.seq, false, queue);
}

}  // namespace shardbench::cuda
