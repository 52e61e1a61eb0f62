#pragma once
#include "kernels/kernel_set.hpp"

/// The vectorised CPU kernels, one source file an op. Each runs on the calling thread.
namespace shardbench::host {

void gemm(GemmArgs const& args);
void grouped_gemm(GroupedGemmArgs const& args);
void attention_forward(AttentionForwardArgs const& args);
void attention_backward(AttentionBackwardArgs const& args);
void attention_merge(AttentionMergeArgs const& args);
void norm_forward(NormForwardArgs const& args);
void norm_backward(NormBackwardArgs const& args);
void im2col(Im2colArgs const& args);
void col2im(Col2imArgs const& args);
void depthwise_forward(DepthwiseForwardArgs const& args);
void depthwise_backward(DepthwiseBackwardArgs const& args);
void batch_norm_forward(BatchNormForwardArgs const& args);
void batch_norm_backward(BatchNormBackwardArgs const& args);
void max_pool_forward(MaxPoolForwardArgs const& args);
void max_pool_backward(MaxPoolBackwardArgs const& args);
void upsample_forward(UpsampleForwardArgs const& args);
void upsample_backward(UpsampleBackwardArgs const& args);
void pool_rows_forward(PoolRowsForwardArgs const& args);
void pool_rows_backward(PoolRowsBackwardArgs const& args);
void rope(RopeArgs const& args);
void activation_forward(ActivationForwardArgs const& args);
void activation_backward(ActivationBackwardArgs const& args);
void embedding_forward(EmbeddingForwardArgs const& args);
void embedding_backward(EmbeddingBackwardArgs const& args);
void cross_entropy_max(CrossEntropyMaxArgs const& args);
void cross_entropy_sum(CrossEntropySumArgs const& args);
void cross_entropy_loss(CrossEntropyLossArgs const& args);
void cross_entropy_backward(CrossEntropyBackwardArgs const& args);
void adamw(AdamWArgs const& args);
void add(AddArgs const& args);
void column_sum(ColumnSumArgs const& args);
void copy_block(CopyBlockArgs const& args);
void square_sum(SquareSumArgs const& args);
void scale(ScaleArgs const& args);
void router_forward(RouterForwardArgs const& args);
void router_backward(RouterBackwardArgs const& args);
void expert_rows(ExpertRowsArgs const& args);
void source_rows(SourceRowsArgs const& args);
void permute(PermuteArgs const& args);
void unpermute(UnpermuteArgs const& args);
void combine_weights(CombineWeightsArgs const& args);
void join_keys(JoinKeysArgs const& args);
void split_keys(SplitKeysArgs const& args);
void best_token(BestTokenArgs const& args);
void pick_token(PickTokenArgs const& args);
void dropout(DropoutArgs const& args);
void clip_factor(ClipFactorArgs const& args);

}  // namespace shardbench::host
