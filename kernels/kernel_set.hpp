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
#include "kernels/permute/permute.hpp"
#include "kernels/optimizer/clip.hpp"
#include "kernels/pool/pool.hpp"
#include "kernels/rope/rope.hpp"
#include "kernels/router/router.hpp"

namespace shardbench {

/// Every operation of one back end. Pointers are device pointers; a call enqueues on `stream` and may return early.
/// Zero-sized arguments are legal and do nothing.
struct KernelSet {
  std::string_view name;              ///< "host", "reference", "cuda"
  std::string_view attention_kernel;  ///< what attention runs, for the report column
  void (*gemm)(Stream&, GemmArgs const&);
  void (*grouped_gemm)(Stream&, GroupedGemmArgs const&);
  void (*attention_forward)(Stream&, AttentionForwardArgs const&);
  void (*attention_backward)(Stream&, AttentionBackwardArgs const&);
  void (*attention_merge)(Stream&, AttentionMergeArgs const&);
  void (*norm_forward)(Stream&, NormForwardArgs const&);
  void (*norm_backward)(Stream&, NormBackwardArgs const&);
  void (*im2col)(Stream&, Im2colArgs const&);
  void (*col2im)(Stream&, Col2imArgs const&);
  void (*depthwise_forward)(Stream&, DepthwiseForwardArgs const&);
  void (*depthwise_backward)(Stream&, DepthwiseBackwardArgs const&);
  void (*batch_norm_forward)(Stream&, BatchNormForwardArgs const&);
  void (*batch_norm_backward)(Stream&, BatchNormBackwardArgs const&);
  void (*max_pool_forward)(Stream&, MaxPoolForwardArgs const&);
  void (*max_pool_backward)(Stream&, MaxPoolBackwardArgs const&);
  void (*upsample_forward)(Stream&, UpsampleForwardArgs const&);
  void (*upsample_backward)(Stream&, UpsampleBackwardArgs const&);
  void (*pool_rows_forward)(Stream&, PoolRowsForwardArgs const&);
  void (*pool_rows_backward)(Stream&, PoolRowsBackwardArgs const&);
  void (*rope)(Stream&, RopeArgs const&);
  void (*activation_forward)(Stream&, ActivationForwardArgs const&);
  void (*activation_backward)(Stream&, ActivationBackwardArgs const&);
  void (*embedding_forward)(Stream&, EmbeddingForwardArgs const&);
  void (*embedding_backward)(Stream&, EmbeddingBackwardArgs const&);
  void (*cross_entropy_max)(Stream&, CrossEntropyMaxArgs const&);
  void (*cross_entropy_sum)(Stream&, CrossEntropySumArgs const&);
  void (*cross_entropy_loss)(Stream&, CrossEntropyLossArgs const&);
  void (*cross_entropy_backward)(Stream&, CrossEntropyBackwardArgs const&);
  void (*adamw)(Stream&, AdamWArgs const&);
  void (*add)(Stream&, AddArgs const&);
  void (*column_sum)(Stream&, ColumnSumArgs const&);
  void (*copy_block)(Stream&, CopyBlockArgs const&);
  void (*square_sum)(Stream&, SquareSumArgs const&);
  void (*scale)(Stream&, ScaleArgs const&);
  void (*router_forward)(Stream&, RouterForwardArgs const&);
  void (*router_backward)(Stream&, RouterBackwardArgs const&);
  void (*expert_rows)(Stream&, ExpertRowsArgs const&);
  void (*source_rows)(Stream&, SourceRowsArgs const&);
  void (*permute)(Stream&, PermuteArgs const&);
  void (*unpermute)(Stream&, UnpermuteArgs const&);
  void (*combine_weights)(Stream&, CombineWeightsArgs const&);
  void (*join_keys)(Stream&, JoinKeysArgs const&);
  void (*split_keys)(Stream&, SplitKeysArgs const&);
  void (*best_token)(Stream&, BestTokenArgs const&);
  void (*pick_token)(Stream&, PickTokenArgs const&);
  void (*dropout)(Stream&, DropoutArgs const&);
  void (*clip_factor)(Stream&, ClipFactorArgs const&);
};

/// Vectorised CPU kernels; GEMM goes to the CPU BLAS.
KernelSet const& host_kernels();

/// The same contracts as obvious loops in double: what every other kernel is checked against. Runs on host pointers.
KernelSet const& reference_kernels();

}  // namespace shardbench
