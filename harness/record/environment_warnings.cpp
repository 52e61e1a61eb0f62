#include "harness/record/environment_warnings.hpp"

#include <fmt/format.h>

namespace shardbench {
namespace {

bool is_on(std::string const& value) { return !value.empty() && value != "0"; }

/// NCCL's levels below a link between GPUs (NCCL environment variables, NCCL_P2P_LEVEL): LOC, or 0, never uses it.
bool turns_peers_off(std::string const& name, std::string const& value) {
  return (name == "NCCL_P2P_DISABLE" && is_on(value)) || (name == "NCCL_P2P_LEVEL" && (value == "LOC" || value == "0"));
}

std::string effect_of(std::string const& name, std::string const& value, int nvlinks) {
  if (turns_peers_off(name, value))
    return nvlinks > 0 ? fmt::format("turns NVLink off, and a GPU here has {} links", nvlinks)
                       : "keeps GPUs from reaching each other's memory";
  if (!is_on(value)) return {};
  if (name == "NCCL_SHM_DISABLE") return "sends between GPUs of a machine over the network";
  if (name == "NCCL_IB_DISABLE") return "leaves InfiniBand and RoCE unused";
  if (name == "CUDA_LAUNCH_BLOCKING") return "makes every launch wait: nothing overlaps";
  if (name == "NVIDIA_TF32_OVERRIDE") return "makes fp32 products TF32: parity in fp32 cannot hold";
  return {};
}

}  // namespace

std::vector<std::string> environment_warnings(std::vector<std::pair<std::string, std::string>> const& variables,
                                              int nvlinks) {
  std::vector<std::string> warnings;
  for (auto const& [name, value] : variables)
    if (std::string const effect = effect_of(name, value, nvlinks); !effect.empty())
      warnings.push_back(fmt::format("{}={} {}; unset it", name, value, effect));
  return warnings;
}

}  // namespace shardbench
