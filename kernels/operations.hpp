#pragma once
#include <type_traits>
#include <variant>

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

/// A variant with one more alternative, unless it has it already.
template <class T, class... Ts>
auto with_alternative(std::variant<Ts...>*) {
  if constexpr ((std::is_same_v<T, Ts> || ...))
    return static_cast<std::variant<Ts...>*>(nullptr);
  else
    return static_cast<std::variant<Ts..., T>*>(nullptr);
}

/// A variant of the alternatives, each once; the first ones are given as a variant.
template <class Variant, class... Ts>
struct UniqueVariant {
  using type = Variant;
};
template <class Variant, class T, class... Ts>
struct UniqueVariant<Variant, T, Ts...>
    : UniqueVariant<std::remove_pointer_t<decltype(with_alternative<T>(static_cast<Variant*>(nullptr)))>, Ts...> {};

/// Every operation, a row each, and the one list that kinds, names, shapes, costs, kernel sets and launches are made
/// from: its name, and the struct that says its Shape, its `cost` and, as `bind`, how operands become the arguments of
/// a kernel. KERNEL rows have a kernel of that name in every back end, which takes the struct itself; OTHER rows have
/// none of their own (harness/exec/launch_compute.cpp starts them).
#define SHARDBENCH_EACH_OPERATION(KERNEL, OTHER)           \
  KERNEL(gemm, GemmArgs)                                   \
  KERNEL(grouped_gemm, GroupedGemmArgs)                    \
  KERNEL(attention_forward, AttentionForwardArgs)          \
  KERNEL(attention_backward, AttentionBackwardArgs)        \
  KERNEL(attention_merge, AttentionMergeArgs)              \
  KERNEL(norm_forward, NormForwardArgs)                    \
  KERNEL(norm_backward, NormBackwardArgs)                  \
  KERNEL(rope, RopeArgs)                                   \
  KERNEL(activation_forward, ActivationForwardArgs)        \
  KERNEL(activation_backward, ActivationBackwardArgs)      \
  KERNEL(embedding_forward, EmbeddingForwardArgs)          \
  KERNEL(embedding_backward, EmbeddingBackwardArgs)        \
  KERNEL(cross_entropy_max, CrossEntropyMaxArgs)           \
  KERNEL(cross_entropy_sum, CrossEntropySumArgs)           \
  KERNEL(cross_entropy_loss, CrossEntropyLossArgs)         \
  KERNEL(cross_entropy_backward, CrossEntropyBackwardArgs) \
  KERNEL(add, AddArgs)                                     \
  KERNEL(column_sum, ColumnSumArgs)                        \
  KERNEL(copy_block, CopyBlockArgs)                        \
  KERNEL(adamw, AdamWArgs)                                 \
  KERNEL(dropout, DropoutArgs)                             \
  KERNEL(square_sum, SquareSumArgs)                        \
  KERNEL(clip_factor, ClipFactorArgs)                      \
  KERNEL(im2col, Im2colArgs)                               \
  KERNEL(col2im, Col2imArgs)                               \
  KERNEL(depthwise_forward, DepthwiseForwardArgs)          \
  KERNEL(depthwise_backward, DepthwiseBackwardArgs)        \
  KERNEL(batch_norm_forward, BatchNormForwardArgs)         \
  KERNEL(batch_norm_backward, BatchNormBackwardArgs)       \
  KERNEL(max_pool_forward, MaxPoolForwardArgs)             \
  KERNEL(max_pool_backward, MaxPoolBackwardArgs)           \
  KERNEL(upsample_forward, UpsampleForwardArgs)            \
  KERNEL(upsample_backward, UpsampleBackwardArgs)          \
  KERNEL(pool_rows_forward, PoolRowsForwardArgs)           \
  KERNEL(pool_rows_backward, PoolRowsBackwardArgs)         \
  KERNEL(router_forward, RouterForwardArgs)                \
  KERNEL(router_backward, RouterBackwardArgs)              \
  KERNEL(permute, PermuteArgs)                             \
  KERNEL(unpermute, UnpermuteArgs)                         \
  KERNEL(combine_weights, CombineWeightsArgs)              \
  KERNEL(expert_rows, ExpertRowsArgs)                      \
  KERNEL(source_rows, SourceRowsArgs)                      \
  OTHER(fetch_counts, FetchCounts)                         \
  KERNEL(join_keys, JoinKeysArgs)                          \
  KERNEL(split_keys, SplitKeysArgs)                        \
  OTHER(cache_append, CacheAppend)                         \
  KERNEL(best_token, BestTokenArgs)                        \
  KERNEL(pick_token, PickTokenArgs)

#define SHARDBENCH_NO_ROW(name, Args)
/// Every operation that has a kernel.
#define SHARDBENCH_EACH_KERNEL(X) SHARDBENCH_EACH_OPERATION(X, SHARDBENCH_NO_ROW)

}  // namespace shardbench
