#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/core/index.hpp"

namespace shardbench {

struct ModelConfig;

/// A part of a layer that backward may compute again, by its name in Megatron Core (--recompute-modules).
enum class RecomputeModule : std::uint8_t {
  core_attn,       ///< attention between its projections (Korthikanti et al. 2022)
  layernorm,       ///< every norm of the layer (DeepSeek-V3 report, section 3.2.3)
  mla_up_proj,     ///< queries, keys and values from their latents, rotation included (ibid.)
  mlp,             ///< the dense MLP
  moe,             ///< router, exchanges, routed and shared experts
  shared_experts,  ///< the experts that every token meets
  moe_act,         ///< the activation between the products of the routed experts
  activation,      ///< the activation of every MLP and expert
  size_
};
std::string_view to_string(RecomputeModule module);

/// A set of them.
class RecomputeModules {
 public:
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool has(RecomputeModule m) const { return (bits_ >> static_cast<int>(m)) & 1; }
  constexpr void add(RecomputeModule m) { bits_ |= static_cast<std::uint16_t>(1 << static_cast<int>(m)); }
  bool operator==(RecomputeModules const&) const = default;

 private:
  std::uint16_t bits_ = 0;
};
/// "core_attn+layernorm"; empty for none.
std::string to_string(RecomputeModules modules);

/// Reads "layernorm+moe_act" (also with commas or spaces, as other programs take it), by names or aliases, with - or
/// '_'. Throws InputError that lists the names.
RecomputeModules parse_recompute_modules(std::string_view flag, std::string_view text);

/// The names with their aliases, for help: "core_attn (attention), ...".
std::string recompute_modules_help();

/// Whether layers of the model have such a part.
bool has_module(ModelConfig const& model, RecomputeModule module);

}  // namespace shardbench
