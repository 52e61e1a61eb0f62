#include "harness/sharding/strategy.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "kernels/core/error.hpp"

namespace shardbench {

Placement Strategy::weight(std::string_view role) const {
  auto const it = weights.find(std::string(role));
  return it == weights.end() ? Placement{Replicate{}} : it->second;
}

std::vector<WeightRole> const& weight_roles() {
  static std::vector<WeightRole> const roles{
      {"embedding.word", "vocabulary x hidden"},
      {"embedding.position", "positions x hidden"},
      {"attention.qkv", "(heads + 2 kv_heads) * head_dim x hidden, cut by heads"},
      {"attention.q_down", "latent of the queries x hidden (latent attention), whole on every rank unless cut here"},
      {"attention.q_up", "heads * head_dim x latent, cut by heads"},
      {"attention.kv_down", "latent of keys and values x hidden"},
      {"attention.kv_up", "heads * (key and value dims) x latent, cut by heads"},
      {"attention.out", "hidden x heads * head_dim"},
      {"mlp.up", "ffn (gate and up) x hidden"},
      {"mlp.down", "hidden x ffn"},
      {"norm", "hidden"},
      {"head", "vocabulary x hidden"},
      {"mtp.projection", "hidden x 2 hidden (multi-token prediction)"},
  };
  return roles;
}

Strategy megatron_strategy(ModelConfig const& model, Cut const& cut) {
  Strategy s;
  s.name = "megatron";
  std::int64_t const tp = std::max(cut.tp, cut.streams);
  if (tp == 1) return s;
  std::int64_t const replicas = std::max<std::int64_t>(1, tp / std::max<std::int64_t>(1, model.kv_heads));
  s.weights = {{"embedding.word", Shard{0}}, {"attention.qkv", Shard{0, ShardLayout::contiguous, replicas}},
               {"attention.q_up", Shard{0}}, {"attention.kv_up", Shard{0}},
               {"attention.out", Shard{1}},  {"mlp.up", Shard{0}},
               {"mlp.down", Shard{1}},       {"head", Shard{0}},
               {"mtp.projection", Shard{0}}};
  if (cut.sequence_parallel) s.block = Shard{0};
  if (cut.tp_sync_fraction < 1 || cut.streams > 1)
    s.block = Private{static_cast<std::int64_t>(cut.tp_sync_fraction * static_cast<double>(model.hidden))};
  return s;
}

namespace {

/// `message` may repeat what the file says: control characters in it would break the one line.
[[noreturn]] void fail(std::string_view name, YAML::Mark const& mark, std::string message) {
  std::ranges::replace_if(
      message, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  throw InputError(fmt::format("strategy {}: line {}: {}", name, mark.is_null() ? 1 : mark.line + 1, message));
}

Placement tensor_axis_placement(YAML::Node const& node, std::string_view name, std::string const& key) {
  if (!node.IsMap() || node.size() != 1 || !node["tp"] || !node["tp"].IsScalar())
    fail(name, node.Mark(), fmt::format("'{}' must be a map with the one axis tp, e.g. {{tp: shard(0)}}", key));
  try {
    return parse_placement(node["tp"].as<std::string>());
  } catch (InputError const& error) {
    fail(name, node["tp"].Mark(), fmt::format("'{}': {}", key, error.what()));
  }
}

void read_weights(YAML::Node const& node, std::string_view name, Strategy& s) {
  if (!node.IsMap()) fail(name, node.Mark(), "'weights' must be a map of weight role to placements");
  for (auto const& item : node) {
    auto const role = item.first.as<std::string>();
    if (std::ranges::find(weight_roles(), role, &WeightRole::name) == weight_roles().end()) {
      std::vector<std::string_view> known;
      for (WeightRole const& each : weight_roles()) known.push_back(each.name);
      fail(name, item.first.Mark(), fmt::format("unknown weight '{}' (allowed: {})", role, fmt::join(known, ", ")));
    }
    auto const placement = tensor_axis_placement(item.second, name, role);
    bool const matrix = role != "norm" && role != "embedding.position";
    bool const fits = is_replicate(placement) || (matrix && (is_shard(placement, 0) || is_shard(placement, 1)));
    if (!fits)
      fail(name, item.first.Mark(),
           fmt::format("weight '{}' cannot be {} (allowed: replicate{})", role, to_string(placement),
                       matrix ? ", shard(0), shard(1)" : ""));
    s.weights[role] = placement;
  }
}

}  // namespace

Strategy parse_strategy(std::string_view yaml, std::string_view name) {
  Strategy s;
  s.name = std::string(name);
  try {
    YAML::Node const root = YAML::Load(std::string(yaml));
    if (!root.IsMap()) fail(name, root.Mark(), "must be a map with the keys name, weights, activations");
    for (auto const& item : root) {
      auto const key = item.first.as<std::string>();
      if (key == "name")
        s.name = item.second.as<std::string>();
      else if (key == "weights")
        read_weights(item.second, name, s);
      else if (key == "activations") {
        if (!item.second.IsMap() || item.second.size() != 1 || !item.second["block"])
          fail(name, item.second.Mark(), "'activations' must be a map with the one key block");
        s.block = tensor_axis_placement(item.second["block"], name, "block");
        if (is_partial(s.block) || (is_shard(s.block) && !is_shard(s.block, 0)))
          fail(name, item.second.Mark(),
               fmt::format("activations between blocks cannot be {} (allowed: replicate, shard(sequence), private(N))",
                           to_string(s.block)));
      } else
        fail(name, item.first.Mark(), fmt::format("unknown key '{}' (allowed: name, weights, activations)", key));
    }
  } catch (YAML::Exception const& e) {
    fail(name, e.mark, e.msg);
  }
  return s;
}

Strategy strategy_of(Experiment const& e) {
  return e.strategy.empty() ? megatron_strategy(e.model, e.cut) : read_strategy(e.strategy);
}

Strategy read_strategy(std::string const& path) {
  std::ifstream in(path);
  if (!in)
    throw InputError(fmt::format("--strategy: cannot read '{}' (a YAML file with name, weights, activations)", path));
  std::ostringstream text;
  text << in.rdbuf();
  return parse_strategy(text.str(), path);
}

}  // namespace shardbench
