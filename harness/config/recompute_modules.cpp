#include "harness/config/recompute_modules.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "harness/config/field_text.hpp"
#include "harness/config/model_config.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

/// A name of a module beside the one that Megatron gives it.
struct Alias {
  std::string_view name;
  RecomputeModule module;
};

/// Written with '_'; '-' is read as the same.
constexpr std::array aliases{
    Alias{"attention", RecomputeModule::core_attn},
    Alias{"attn", RecomputeModule::core_attn},
    Alias{"norm", RecomputeModule::layernorm},
    Alias{"rmsnorm", RecomputeModule::layernorm},
    Alias{"mla_up", RecomputeModule::mla_up_proj},
    Alias{"shared", RecomputeModule::shared_experts},
    Alias{"expert_activation", RecomputeModule::moe_act},
    Alias{"act", RecomputeModule::activation},
};

bool is_separator(char c) { return c == '+' || c == ',' || c == ' '; }

RecomputeModule module_of(std::string_view flag, std::string word) {
  std::ranges::replace(word, '-', '_');
  for (RecomputeModule const m : enum_values<RecomputeModule>())
    if (word == to_string(m)) return m;
  auto const found = std::ranges::find(aliases, word, &Alias::name);
  if (found == aliases.end())
    throw InputError(fmt::format("--{}: {} is no part of a layer; allowed: none, or {}", flag, in_quotes(word),
                                 recompute_modules_help()));
  return found->module;
}

bool has_dense_mlp(ModelConfig const& m) {
  for (std::int64_t layer = 0; layer < m.layers; ++layer)
    if (!m.is_moe_layer(layer)) return true;
  return false;
}

}  // namespace

std::string_view to_string(RecomputeModule module) {
  return EnumNames<RecomputeModule>{"core_attn", "layernorm",      "mla_up_proj", "mlp",
                                    "moe",       "shared_experts", "moe_act",     "activation"}[module];
}

std::string to_string(RecomputeModules modules) {
  std::vector<std::string_view> names;
  for (RecomputeModule const m : enum_values<RecomputeModule>())
    if (modules.has(m)) names.push_back(to_string(m));
  return fmt::format("{}", fmt::join(names, "+"));
}

RecomputeModules parse_recompute_modules(std::string_view flag, std::string_view text) {
  RecomputeModules modules;
  if (text == "none") return modules;
  for (std::size_t at = 0; at <= text.size();) {
    std::size_t end = at;
    while (end < text.size() && !is_separator(text[end])) ++end;
    modules.add(module_of(flag, std::string(text.substr(at, end - at))));
    at = end + 1;
  }
  return modules;
}

std::string recompute_modules_help() {
  std::vector<std::string> names;
  for (RecomputeModule const m : enum_values<RecomputeModule>()) {
    std::vector<std::string_view> others;
    for (Alias const& alias : aliases)
      if (alias.module == m) others.push_back(alias.name);
    names.push_back(others.empty() ? std::string(to_string(m))
                                   : fmt::format("{} ({})", to_string(m), fmt::join(others, ", ")));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

bool has_module(ModelConfig const& m, RecomputeModule module) {
  if (m.yolo) return false;
  switch (module) {
    case RecomputeModule::mla_up_proj:
      return m.mla.has_value();
    case RecomputeModule::mlp:
      return has_dense_mlp(m);
    case RecomputeModule::moe:
    case RecomputeModule::moe_act:
      return m.moe.has_value();
    case RecomputeModule::shared_experts:
      return m.moe && m.moe->shared_ffn_hidden > 0;
    default:
      return true;
  }
}

}  // namespace shardbench
