#include "kernels/kernel_set_host.hpp"

#include "kernels/gemm/blas_host.hpp"

namespace shardbench {
namespace {

/// The kernel as an entry of the set: submitted to the stream with its arguments copied.
template <class Args, void (*kernel)(Args const&)>
void enqueue(Stream& stream, Args const& args) {
  stream.submit([args] { kernel(args); });
}

}  // namespace

KernelSet const& host_kernels() {
  static KernelSet const set = {
      .name = "host",
      .attention_kernel = "blocked online softmax (BLAS)",
      .gemm = enqueue<GemmArgs, host::gemm>,
      .grouped_gemm = enqueue<GroupedGemmArgs, host::grouped_gemm>,
      .attention_forward = enqueue<AttentionForwardArgs, host::attention_forward>,
      .attention_backward = enqueue<AttentionBackwardArgs, host::attention_backward>,
      .attention_merge = enqueue<AttentionMergeArgs, host::attention_merge>,
      .norm_forward = enqueue<NormForwardArgs, host::norm_forward>,
      .norm_backward = enqueue<NormBackwardArgs, host::norm_backward>,
      .im2col = enqueue<Im2colArgs, host::im2col>,
      .col2im = enqueue<Col2imArgs, host::col2im>,
      .depthwise_forward = enqueue<DepthwiseForwardArgs, host::depthwise_forward>,
      .depthwise_backward = enqueue<DepthwiseBackwardArgs, host::depthwise_backward>,
      .batch_norm_forward = enqueue<BatchNormForwardArgs, host::batch_norm_forward>,
      .batch_norm_backward = enqueue<BatchNormBackwardArgs, host::batch_norm_backward>,
      .max_pool_forward = enqueue<MaxPoolForwardArgs, host::max_pool_forward>,
      .max_pool_backward = enqueue<MaxPoolBackwardArgs, host::max_pool_backward>,
      .upsample_forward = enqueue<UpsampleForwardArgs, host::upsample_forward>,
      .upsample_backward = enqueue<UpsampleBackwardArgs, host::upsample_backward>,
      .pool_rows_forward = enqueue<PoolRowsForwardArgs, host::pool_rows_forward>,
      .pool_rows_backward = enqueue<PoolRowsBackwardArgs, host::pool_rows_backward>,
      .rope = enqueue<RopeArgs, host::rope>,
      .activation_forward = enqueue<ActivationForwardArgs, host::activation_forward>,
      .activation_backward = enqueue<ActivationBackwardArgs, host::activation_backward>,
      .embedding_forward = enqueue<EmbeddingForwardArgs, host::embedding_forward>,
      .embedding_backward = enqueue<EmbeddingBackwardArgs, host::embedding_backward>,
      .cross_entropy_max = enqueue<CrossEntropyMaxArgs, host::cross_entropy_max>,
      .cross_entropy_sum = enqueue<CrossEntropySumArgs, host::cross_entropy_sum>,
      .cross_entropy_loss = enqueue<CrossEntropyLossArgs, host::cross_entropy_loss>,
      .cross_entropy_backward = enqueue<CrossEntropyBackwardArgs, host::cross_entropy_backward>,
      .adamw = enqueue<AdamWArgs, host::adamw>,
      .add = enqueue<AddArgs, host::add>,
      .column_sum = enqueue<ColumnSumArgs, host::column_sum>,
      .copy_block = enqueue<CopyBlockArgs, host::copy_block>,
      .square_sum = enqueue<SquareSumArgs, host::square_sum>,
      .scale = enqueue<ScaleArgs, host::scale>,
      .router_forward = enqueue<RouterForwardArgs, host::router_forward>,
      .router_backward = enqueue<RouterBackwardArgs, host::router_backward>,
      .expert_rows = enqueue<ExpertRowsArgs, host::expert_rows>,
      .source_rows = enqueue<SourceRowsArgs, host::source_rows>,
      .permute = enqueue<PermuteArgs, host::permute>,
      .unpermute = enqueue<UnpermuteArgs, host::unpermute>,
      .combine_weights = enqueue<CombineWeightsArgs, host::combine_weights>,
      .join_keys = enqueue<JoinKeysArgs, host::join_keys>,
      .split_keys = enqueue<SplitKeysArgs, host::split_keys>,
      .best_token = enqueue<BestTokenArgs, host::best_token>,
      .pick_token = enqueue<PickTokenArgs, host::pick_token>,
      .dropout = enqueue<DropoutArgs, host::dropout>,
      .clip_factor = enqueue<ClipFactorArgs, host::clip_factor>,
  };
  host::open_blas();  // here, on the thread that sets up: opening it changes the environment
  return set;
}

}  // namespace shardbench
