#pragma once
#include <cstdint>
#include <vector>

#include "harness/config/model_config.hpp"

namespace shardbench {

/// How routing spreads tokens when it is prescribed: shares of the experts, as kernels/router's PrescribedChoice takes
/// them. Any `period` tokens in a row give each expert exactly shares[e + 1] - shares[e] rows.
struct RoutingLoad {
  std::int64_t period = 1;
  std::int64_t stride = 1;  ///< between the draws of neighbouring tokens: coprime to the period, near the golden ratio
  std::vector<std::int32_t> shares;
  /// Rows that experts [first, first + count) get of `tokens`, on average.
  double rows(double tokens, std::int64_t first, std::int64_t count) const;
  /// The most rows of any `tokens` in a row.
  std::int64_t most_rows(std::int64_t tokens, std::int64_t first, std::int64_t count) const;
};

/// Equal shares for a skew of 0 or 1; else shares that fall geometrically from expert to expert, in an order that mixes
/// them over ranks, with the busiest (expert 0) at `skew` times the mean.
RoutingLoad routing_load(MoeConfig const& moe, double skew);

}  // namespace shardbench
