#include "kernels/attention/attention_math.hpp"
#include "kernels/core/row_host.hpp"
#include "kernels/core/storage.hpp"
#include "kernels/kernel_set_host.hpp"

namespace shardbench::host {
namespace {

template <class T>
void merge_row(T* out, T const* block, std::int64_t dim, MergeWeights const& weights) {
#pragma omp simd
  for (std::int64_t d = 0; d < dim; ++d)
    out[d] = from_float<T>(weights.own * to_float(out[d]) + weights.block * to_float(block[d]));
}

template <class T>
void merge(AttentionMergeArgs const& args) {
  for (std::int64_t row = 0; row < args.seq * args.batch; ++row) {
    std::int64_t const s = row / args.batch, b = row % args.batch;
    for (std::int64_t head = 0; head < args.heads; ++head) {
      std::int64_t const line = b * args.heads + head;
      float& statistic = args.log_sum_exp[line * statistic_stride(args) + s];
      MergeWeights const weights = merge_weights(statistic, args.block_log_sum_exp[line * args.seq + s]);
      statistic = weights.log_sum_exp;
      merge_row(static_cast<T*>(args.out.data) + row * args.out.row_stride + head * args.value_dim,
                static_cast<T const*>(args.block.data) + row * args.block.row_stride + head * args.value_dim,
                args.value_dim, weights);
    }
  }
}

}  // namespace

void attention_merge(AttentionMergeArgs const& args) {
  with_storage(args.dtype, "attention merge", [&]<class T>(T) { merge<T>(args); });
}

}  // namespace shardbench::host
