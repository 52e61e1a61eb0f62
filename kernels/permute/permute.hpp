#pragma once
#include <cstdint>

#include "kernels/core/device.hpp"

namespace shardbench {

/// Where each copy of a token's row goes when rows are sorted by (rank, copy, expert), tokens in order within. A rank
/// holds experts / ranks neighbouring experts, cut into `copies` parts that each need every row.
struct ExpertRowsArgs {
  std::int32_t const* indices = nullptr;  ///< [tokens, top_k] chosen experts
  std::int32_t const* before = nullptr;   ///< [earlier, experts] rows that others' pieces of the tokens chose
  std::int32_t* rows = nullptr;           ///< [tokens, top_k * copies] row in the sorted buffer, -1 where dropped
  std::int32_t* counts = nullptr;         ///< [ranks, copies, experts / ranks] rows of each
  std::int64_t tokens = 0, top_k = 1, experts = 0, ranks = 1, copies = 1;
  std::int64_t earlier = 0;   ///< pieces of `before`
  std::int64_t capacity = 0;  ///< rows that an expert takes, in the order of tokens and pieces; 0: all
  /// [earlier] the token ahead of which a piece comes, `tokens` and more for one behind them all; nullptr: 0 for each
  std::int32_t const* from = nullptr;
};

/// Rows that came in sorted by (source, expert): rows[r] is row r's place when sorted by (expert, source).
struct SourceRowsArgs {
  std::int32_t const* counts = nullptr;  ///< [sources, experts]
  std::int32_t* rows = nullptr;          ///< [total]
  std::int64_t sources = 0, experts = 0;
  std::int64_t total = 0;  ///< sum of counts
};

/// out[rows[t, j]] = weights[t, j / copies] * x[t]; entries with row -1 move nothing.
struct PermuteArgs {
  void const* x = nullptr;             ///< [tokens, cols]
  std::int32_t const* rows = nullptr;  ///< [tokens, slots]; nullptr with one slot: row t
  float const* weights = nullptr;      ///< [tokens, slots / copies]; nullptr: 1
  void* out = nullptr;                 ///< [sorted, cols]
  std::int64_t tokens = 0, slots = 1, copies = 1, cols = 0;
  std::int64_t sorted = 0;  ///< rows that `out` has room for
  Dtype dtype = Dtype::f32;
};

/// y[t] = sum over j of weights[t, j / copies] * x[rows[t, j]], in fp32 and in the order of j; zeros where all are -1.
struct UnpermuteArgs {
  void const* x = nullptr;             ///< [sorted, cols]
  std::int32_t const* rows = nullptr;  ///< as in PermuteArgs
  float const* weights = nullptr;
  void* y = nullptr;  ///< [tokens, cols]
  std::int64_t tokens = 0, slots = 1, copies = 1, cols = 0;
  std::int64_t sorted = 0;
  Dtype dtype = Dtype::f32;
};

/// dweights[t, i] = sum over the copies j of i of <dy[t], x[rows[t, j]]>: the gradient of the weights of an unpermute.
struct CombineWeightsArgs {
  void const* dy = nullptr;  ///< [tokens, cols]
  void const* x = nullptr;   ///< [sorted, cols]
  std::int32_t const* rows = nullptr;
  float* dweights = nullptr;  ///< [tokens, slots / copies]
  std::int64_t tokens = 0, slots = 1, copies = 1, cols = 0;
  std::int64_t sorted = 0;
  Dtype dtype = Dtype::f32;
};

}  // namespace shardbench
