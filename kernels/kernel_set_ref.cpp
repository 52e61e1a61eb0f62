#include "kernels/kernel_set_ref.hpp"

namespace shardbench {
namespace {

/// The kernel as an entry of the set: submitted to the stream with its arguments copied.
template <class Args, void (*kernel)(Args const&)>
void enqueue(Stream& stream, Args const& args) {
  stream.submit([args] { kernel(args); });
}

}  // namespace

KernelSet const& reference_kernels() {
  static KernelSet const set = {
      .name = "reference",
      .attention_kernel = "full softmax rows (double)",
      .gemm = enqueue<GemmArgs, reference::gemm>,
      .grouped_gemm = enqueue<GroupedGemmArgs, reference::grouped_gemm>,
      .attention_forward = enqueue<AttentionForwardArgs, reference::attention_forward>,
      .attention_backward = enqueue<AttentionBackwardArgs, reference::attention_backward>,
      .attention_merge = enqueue<AttentionMergeArgs, reference::attention_merge>,
      .norm_forward = enqueue<NormForwardArgs, reference::norm_forward>,
      .norm_backward = enqueue<NormBackwardArgs, reference::norm_backward>,
      .im2col = enqueue<Im2colArgs, reference::im2col>,
      .col2im = enqueue<Col2imArgs, reference::col2im>,
      .depthwise_forward = enqueue<DepthwiseForwardArgs, reference::depthwise_forward>,
      .depthwise_backward = enqueue<DepthwiseBackwardArgs, reference::depthwise_backward>,
      .batch_norm_forward = enqueue<BatchNormForwardArgs, reference::batch_norm_forward>,
      .batch_norm_backward = enqueue<BatchNormBackwardArgs, reference::batch_norm_backward>,
      .max_pool_forward = enqueue<MaxPoolForwardArgs, reference::max_pool_forward>,
      .max_pool_backward = enqueue<MaxPoolBackwardArgs, reference::max_pool_backward>,
      .upsample_forward = enqueue<UpsampleForwardArgs, reference::upsample_forward>,
      .upsample_backward = enqueue<UpsampleBackwardArgs, reference::upsample_backward>,
      .pool_rows_forward = enqueue<PoolRowsForwardArgs, reference::pool_rows_forward>,
      .pool_rows_backward = enqueue<PoolRowsBackwardArgs, reference::pool_rows_backward>,
      .rope = enqueue<RopeArgs, reference::rope>,
      .activation_forward = enqueue<ActivationForwardArgs, reference::activation_forward>,
      .activation_backward = enqueue<ActivationBackwardArgs, reference::activation_backward>,
      .embedding_forward = enqueue<EmbeddingForwardArgs, reference::embedding_forward>,
      .embedding_backward = enqueue<EmbeddingBackwardArgs, reference::embedding_backward>,
      .cross_entropy_max = enqueue<CrossEntropyMaxArgs, reference::cross_entropy_max>,
      .cross_entropy_sum = enqueue<CrossEntropySumArgs, reference::cross_entropy_sum>,
      .cross_entropy_loss = enqueue<CrossEntropyLossArgs, reference::cross_entropy_loss>,
      .cross_entropy_backward = enqueue<CrossEntropyBackwardArgs, reference::cross_entropy_backward>,
      .adamw = enqueue<AdamWArgs, reference::adamw>,
      .add = enqueue<AddArgs, reference::add>,
      .column_sum = enqueue<ColumnSumArgs, reference::column_sum>,
      .copy_block = enqueue<CopyBlockArgs, reference::copy_block>,
      .square_sum = enqueue<SquareSumArgs, reference::square_sum>,
      .scale = enqueue<ScaleArgs, reference::scale>,
      .router_forward = enqueue<RouterForwardArgs, reference::router_forward>,
      .router_backward = enqueue<RouterBackwardArgs, reference::router_backward>,
      .expert_rows = enqueue<ExpertRowsArgs, reference::expert_rows>,
      .source_rows = enqueue<SourceRowsArgs, reference::source_rows>,
      .permute = enqueue<PermuteArgs, reference::permute>,
      .unpermute = enqueue<UnpermuteArgs, reference::unpermute>,
      .combine_weights = enqueue<CombineWeightsArgs, reference::combine_weights>,
      .join_keys = enqueue<JoinKeysArgs, reference::join_keys>,
      .split_keys = enqueue<SplitKeysArgs, reference::split_keys>,
      .best_token = enqueue<BestTokenArgs, reference::best_token>,
      .pick_token = enqueue<PickTokenArgs, reference::pick_token>,
      .dropout = enqueue<DropoutArgs, reference::dropout>,
      .clip_factor = enqueue<ClipFactorArgs, reference::clip_factor>,
  };
  return set;
}

}  // namespace shardbench
