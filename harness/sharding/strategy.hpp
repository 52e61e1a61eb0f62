#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/config/experiment.hpp"
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

/// The strategy that an experiment asks for: its file, or Megatron's cut.
Strategy strategy_of(Experiment const& experiment);

/// Reads a strategy file. Throws InputError naming file, key and what is allowed.
Strategy read_strategy(std::string const& path);
Strategy parse_strategy(std::string_view yaml, std::string_view name);

/// Weight roles that a strategy may place, with the dims that may be cut.
struct WeightRole {
  std::string_view name;
  std::string_view what;
};
std::vector<WeightRole> const& weight_roles();

}  // namespace shardbench
