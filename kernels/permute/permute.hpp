#pragma once
#include <cstdint>

#include "kernels/core/binding.hpp"
#include "kernels/core/cost.hpp"
#include "kernels/core/device.hpp"

namespace shardbench {

/// expert_rows, source_rows and fetch_counts: rows of `experts` of each rank of `ranks`, as in kernels/permute.
struct RowsShape {
  std::int64_t tokens = 0, top_k = 1, experts = 0, ranks = 1, copies = 1;
  std::int64_t earlier = 0, capacity = 0;
};

/// Where each copy of a token's row goes when rows are sorted by (rank, copy, expert), tokens in order within. A rank
/// holds experts / ranks neighbouring experts, cut into `copies` parts that each need every row.
struct ExpertRowsArgs {
  using Shape = RowsShape;
  /// Places of all entries among the experts.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static ExpertRowsArgs bind(Shape const& shape, Binding const& binding);

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
  using Shape = RowsShape;
  /// Places of the rows that are expected to come.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static SourceRowsArgs bind(Shape const& shape, Binding const& binding);

  std::int32_t const* counts = nullptr;  ///< [sources, experts]
  std::int32_t* rows = nullptr;          ///< [total]
  std::int64_t sources = 0, experts = 0;
  std::int64_t total = 0;  ///< sum of counts
};

/// The counts that routing made, brought to the host, which waits for them: no kernel does it.
struct FetchCounts {
  using Shape = RowsShape;
  /// No FLOPs: what goes to each (peer, expert of its) and, where there are peers, what comes from them is read.
  static OpCost cost(Shape const& shape, CostContext const& context);
};

/// permute, unpermute, combine_weights: tokens and their `slots` places among `sorted` rows; `routed`: those arrived.
struct PermuteShape {
  std::int64_t tokens = 0, slots = 1, copies = 1, cols = 0, sorted = 0;
  double expected_tokens = 0, expected_sorted = 0;
  bool routed = false;
};

/// out[rows[t, j]] = weights[t, j / copies] * x[t]; entries with row -1 move nothing.
struct PermuteArgs {
  using Shape = PermuteShape;
  /// Rows moved between token order and expert order, weighted or not.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static PermuteArgs bind(Shape const& shape, Binding const& binding);

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
  using Shape = PermuteShape;
  /// As permute.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static UnpermuteArgs bind(Shape const& shape, Binding const& binding);

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
  using Shape = PermuteShape;
  /// A product of two rows for each sorted row.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static CombineWeightsArgs bind(Shape const& shape, Binding const& binding);

  void const* dy = nullptr;  ///< [tokens, cols]
  void const* x = nullptr;   ///< [sorted, cols]
  std::int32_t const* rows = nullptr;
  float* dweights = nullptr;  ///< [tokens, slots / copies]
  std::int64_t tokens = 0, slots = 1, copies = 1, cols = 0;
  std::int64_t sorted = 0;
  Dtype dtype = Dtype::f32;
};

}  // namespace shardbench
