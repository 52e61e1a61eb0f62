#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/config/cut.hpp"
#include "harness/sharding/axis.hpp"
#include "harness/sharding/placement.hpp"

namespace shardbench {

/// A cut as a table: where each weight lies on the tensor axis, and how activations lie between blocks. Collectives are
/// derived from it. Weights are [out, in]: shard(0) cuts outputs (column parallel), shard(1) inputs (row parallel).
struct Strategy {
  std::string name;
  std::map<std::string, Placement> weights;  ///< by weight role; roles that are not named replicate
  Placement block = Replicate{};             ///< the residual stream on tp: replicate, shard(0) or private
  Placement weight(std::string_view role) const;
};

/// Megatron-LM's cut: columns then rows, vocabulary cut, sequence parallelism and partial synchronisation as
/// configured.
Strategy megatron_strategy(ModelConfig const& model, Cut const& cut);

/// The strategy that a configuration asks for: its file, or Megatron's cut.
Strategy strategy_of(ModelConfig const& model, Cut const& cut);

/// Reads a strategy file. Throws InputError naming file, key and what is allowed.
Strategy read_strategy(std::string const& path);
Strategy parse_strategy(std::string_view yaml, std::string_view name);

/// Weight roles that a strategy may place, with the dims that may be cut.
struct WeightRole {
  std::string_view name;
  std::string_view what;
};
std::vector<WeightRole> const& weight_roles();

/// One row of `shardbench strategies`.
struct StrategyInfo {
  std::string name;
  std::string flag;
  std::string_view what;
  std::string_view source;
  std::string_view state;  ///< "runs" (with parity), "counted" (described and simulated only) or "not yet"
};
std::vector<StrategyInfo> const& strategy_catalog();

}  // namespace shardbench
