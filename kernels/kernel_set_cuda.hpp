#pragma once
#include "kernels/kernel_set.hpp"

namespace shardbench {

/// Kernels for NVIDIA GPUs. Streams must come from a CudaDevice.
KernelSet const& cuda_kernels();

/// The same with cuDNN's fused attention.
KernelSet const& cuda_kernels_with_cudnn();

namespace cuda {

void gemm(Stream& stream, GemmArgs const& args);
void grouped_gemm(Stream& stream, GroupedGemmArgs const& args);
void attention_forward(Stream& stream, AttentionForwardArgs const& args);
void attention_backward(Stream& stream, AttentionBackwardArgs const& args);
void attention_merge(Stream& stream, AttentionMergeArgs const& args);
void norm_forward(Stream& stream, NormForwardArgs const& args);
void norm_backward(Stream& stream, NormBackwardArgs const& args);
void im2col(Stream& stream, Im2colArgs const& args);
void col2im(Stream& stream, Col2imArgs const& args);
void depthwise_forward(Stream& stream, DepthwiseForwardArgs const& args);
void depthwise_backward(Stream& stream, DepthwiseBackwardArgs const& args);
void batch_norm_forward(Stream& stream, BatchNormForwardArgs const& args);
void batch_norm_backward(Stream& stream, BatchNormBackwardArgs const& args);
void max_pool_forward(Stream& stream, MaxPoolForwardArgs const& args);
void max_pool_backward(Stream& stream, MaxPoolBackwardArgs const& args);
void upsample_forward(Stream& stream, UpsampleForwardArgs const& args);
void upsample_backward(Stream& stream, UpsampleBackwardArgs const& args);
void pool_rows_forward(Stream& stream, PoolRowsForwardArgs const& args);
void pool_rows_backward(Stream& stream, PoolRowsBackwardArgs const& args);
void rope(Stream& stream, RopeArgs const& args);
void activation_forward(Stream& stream, ActivationForwardArgs const& args);
void activation_backward(Stream& stream, ActivationBackwardArgs const& args);
void embedding_forward(Stream& stream, EmbeddingForwardArgs const& args);
void embedding_backward(Stream& stream, EmbeddingBackwardArgs const& args);
void cross_entropy_max(Stream& stream, CrossEntropyMaxArgs const& args);
void cross_entropy_sum(Stream& stream, CrossEntropySumArgs const& args);
void cross_entropy_loss(Stream& stream, CrossEntropyLossArgs const& args);
void cross_entropy_backward(Stream& stream, CrossEntropyBackwardArgs const& args);
void adamw(Stream& stream, AdamWArgs const& args);
void add(Stream& stream, AddArgs const& args);
void column_sum(Stream& stream, ColumnSumArgs const& args);
void copy_block(Stream& stream, CopyBlockArgs const& args);
void square_sum(Stream& stream, SquareSumArgs const& args);
void scale(Stream& stream, ScaleArgs const& args);
void router_forward(Stream& stream, RouterForwardArgs const& args);
void router_backward(Stream& stream, RouterBackwardArgs const& args);
void expert_rows(Stream& stream, ExpertRowsArgs const& args);
void source_rows(Stream& stream, SourceRowsArgs const& args);
void permute(Stream& stream, PermuteArgs const& args);
void unpermute(Stream& stream, UnpermuteArgs const& args);
void combine_weights(Stream& stream, CombineWeightsArgs const& args);
void join_keys(Stream& stream, JoinKeysArgs const& args);
void split_keys(Stream& stream, SplitKeysArgs const& args);
void best_token(Stream& stream, BestTokenArgs const& args);
void pick_token(Stream& stream, PickTokenArgs const& args);
void dropout(Stream& stream, DropoutArgs const& args);
void clip_factor(Stream& stream, ClipFactorArgs const& args);

}  // namespace cuda
}  // namespace shardbench
