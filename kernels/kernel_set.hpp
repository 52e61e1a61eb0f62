#pragma once
#include "kernels/activation/activation.hpp"
#include "kernels/attention/attention.hpp"
#include "kernels/batch_norm/batch_norm.hpp"
#include "kernels/conv/conv.hpp"
#include "kernels/cross_entropy/cross_entropy.hpp"
#include "kernels/dropout/dropout.hpp"
#include "kernels/elementwise/elementwise.hpp"
#include "kernels/embedding/embedding.hpp"
#include "kernels/gemm/gemm.hpp"
#include "kernels/greedy/greedy.hpp"
#include "kernels/latent/latent.hpp"
#include "kernels/norm/norm.hpp"
#include "kernels/optimizer/adamw.hpp"
#include "kernels/optimizer/clip.hpp"
#include "kernels/permute/permute.hpp"
#include "kernels/pool/pool.hpp"
#include "kernels/rope/rope.hpp"
#include "kernels/router/router.hpp"

namespace shardbench {

/// Every operation by name and arguments: the one list that all back ends are declared and filled from.
#define SHARDBENCH_EACH_KERNEL(X)                     \
  X(gemm, GemmArgs)                                   \
  X(grouped_gemm, GroupedGemmArgs)                    \
  X(attention_forward, AttentionForwardArgs)          \
  X(attention_backward, AttentionBackwardArgs)        \
  X(attention_merge, AttentionMergeArgs)              \
  X(norm_forward, NormForwardArgs)                    \
  X(norm_backward, NormBackwardArgs)                  \
  X(im2col, Im2colArgs)                               \
  X(col2im, Col2imArgs)                               \
  X(depthwise_forward, DepthwiseForwardArgs)          \
  X(depthwise_backward, DepthwiseBackwardArgs)        \
  X(batch_norm_forward, BatchNormForwardArgs)         \
  X(batch_norm_backward, BatchNormBackwardArgs)       \
  X(max_pool_forward, MaxPoolForwardArgs)             \
  X(max_pool_backward, MaxPoolBackwardArgs)           \
  X(upsample_forward, UpsampleForwardArgs)            \
  X(upsample_backward, UpsampleBackwardArgs)          \
  X(pool_rows_forward, PoolRowsForwardArgs)           \
  X(pool_rows_backward, PoolRowsBackwardArgs)         \
  X(rope, RopeArgs)                                   \
  X(activation_forward, ActivationForwardArgs)        \
  X(activation_backward, ActivationBackwardArgs)      \
  X(embedding_forward, EmbeddingForwardArgs)          \
  X(embedding_backward, EmbeddingBackwardArgs)        \
  X(cross_entropy_max, CrossEntropyMaxArgs)           \
  X(cross_entropy_sum, CrossEntropySumArgs)           \
  X(cross_entropy_loss, CrossEntropyLossArgs)         \
  X(cross_entropy_backward, CrossEntropyBackwardArgs) \
  X(adamw, AdamWArgs)                                 \
  X(add, AddArgs)                                     \
  X(column_sum, ColumnSumArgs)                        \
  X(copy_block, CopyBlockArgs)                        \
  X(square_sum, SquareSumArgs)                        \
  X(scale, ScaleArgs)                                 \
  X(router_forward, RouterForwardArgs)                \
  X(router_backward, RouterBackwardArgs)              \
  X(expert_rows, ExpertRowsArgs)                      \
  X(source_rows, SourceRowsArgs)                      \
  X(permute, PermuteArgs)                             \
  X(unpermute, UnpermuteArgs)                         \
  X(combine_weights, CombineWeightsArgs)              \
  X(join_keys, JoinKeysArgs)                          \
  X(split_keys, SplitKeysArgs)                        \
  X(best_token, BestTokenArgs)                        \
  X(pick_token, PickTokenArgs)                        \
  X(dropout, DropoutArgs)                             \
  X(clip_factor, ClipFactorArgs)

/// Every operation of one back end. Pointers are device pointers; a call enqueues on `stream` and may return early.
/// Zero-sized arguments are legal and do nothing.
struct KernelSet {
  std::string_view name;              ///< "host", "reference", "cuda"
  std::string_view attention_kernel;  ///< what attention runs, for the report column
#define SHARDBENCH_MEMBER(name, Args) void (*name)(Stream&, Args const&);
  SHARDBENCH_EACH_KERNEL(SHARDBENCH_MEMBER)
#undef SHARDBENCH_MEMBER
  /// Device memory that attention of a shape keeps on a stream besides what the stream has; nullptr where it keeps
  /// none.
  std::size_t (*attention_workspace)(Stream&, AttentionShape const&, bool backward) = nullptr;
};

/// Vectorised CPU kernels; GEMM goes to the CPU BLAS.
KernelSet const& host_kernels();

/// The same contracts as obvious loops in double: what every other kernel is checked against. Runs on host pointers.
KernelSet const& reference_kernels();

}  // namespace shardbench
