#include "kernels/permute/permute.hpp"

namespace shardbench {
namespace {

/// Places of `entries` rows among the experts of all ranks.
OpCost places_cost(RowsShape const& s, double entries) {
  return {entries, fp32_bytes * (2 * entries + static_cast<double>(s.experts * s.ranks))};
}

/// Rows, where they go and their weights, to rows.
template <class Args>
Args bind_rows(PermuteShape const& s, Binding const& b) {
  std::int64_t const tokens = b.rows_here(s.tokens), sorted = b.rows_here(s.sorted);
  return {b.in(0).data,
          b.in(1).as<std::int32_t>(),
          b.in(2).as<float>(),
          b.out(0).data,
          tokens,
          s.slots,
          s.copies,
          s.cols,
          sorted,
          b.precision};
}

}  // namespace

OpCost ExpertRowsArgs::cost(RowsShape const& s, CostContext const&) {
  return places_cost(s, static_cast<double>(s.tokens * s.top_k * s.copies));
}

ExpertRowsArgs ExpertRowsArgs::bind(RowsShape const& s, Binding const& b) {
  ExpertRowsArgs a;
  a.indices = b.in(0).as<std::int32_t>(), a.before = b.in(1).as<std::int32_t>(), a.from = b.in(2).as<std::int32_t>();
  a.rows = b.out(0).as<std::int32_t>(), a.counts = b.out(1).as<std::int32_t>();
  a.tokens = s.tokens, a.top_k = s.top_k, a.experts = s.experts, a.ranks = s.ranks, a.copies = s.copies;
  a.earlier = s.earlier, a.capacity = s.capacity;
  return a;
}

OpCost SourceRowsArgs::cost(RowsShape const& s, CostContext const& context) {
  return places_cost(s, context.expected_output_rows);
}

SourceRowsArgs SourceRowsArgs::bind(RowsShape const& s, Binding const& b) {
  return {b.in(0).as<std::int32_t>(), b.out(0).as<std::int32_t>(), s.ranks, s.experts, b.routed_rows};
}

OpCost FetchCounts::cost(RowsShape const& s, CostContext const&) {
  bool const peers = s.ranks * s.copies > 1;
  return {0, fp32_bytes * (peers ? 2 : 1) * static_cast<double>(s.experts * s.copies)};
}

OpCost PermuteArgs::cost(PermuteShape const& s, CostContext const& context) {
  double const width = static_cast<double>(s.cols);
  return {s.expected_sorted * width, width_of(context.precision) * (s.expected_tokens + s.expected_sorted) * width +
                                         2 * fp32_bytes * s.expected_sorted};
}

PermuteArgs PermuteArgs::bind(PermuteShape const& s, Binding const& b) { return bind_rows<PermuteArgs>(s, b); }

OpCost UnpermuteArgs::cost(PermuteShape const& s, CostContext const& context) { return PermuteArgs::cost(s, context); }

UnpermuteArgs UnpermuteArgs::bind(PermuteShape const& s, Binding const& b) { return bind_rows<UnpermuteArgs>(s, b); }

OpCost CombineWeightsArgs::cost(PermuteShape const& s, CostContext const& context) {
  OpCost cost = PermuteArgs::cost(s, context);
  cost.flops *= 2;
  return cost;
}

CombineWeightsArgs CombineWeightsArgs::bind(PermuteShape const& s, Binding const& b) {
  return {
      b.in(0).data, b.in(1).data, b.in(2).as<std::int32_t>(), b.out(0).as<float>(), s.tokens, s.slots, s.copies, s.cols,
      s.sorted,     b.precision};
}

}  // namespace shardbench
