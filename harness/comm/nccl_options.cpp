#include "harness/comm/nccl_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>

#include "kernels/core/error.hpp"

namespace shardbench {

EnvironmentSettings nccl_environment(NcclOptions const& options) {
  EnvironmentSettings settings;
  if (!options.algo.empty()) settings.emplace_back("NCCL_ALGO", options.algo);
  if (!options.proto.empty()) settings.emplace_back("NCCL_PROTO", options.proto);
  if (options.channels > 0)
    for (char const* const name : {"NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"})
      settings.emplace_back(name, std::to_string(options.channels));
  return settings;
}

EnvironmentSettings shared_gpu_environment(int rank) {
  // NCCL 2.28: "Duplicate GPU detected" compares host id and device; a host id of its own for each rank passes.
  return {{"NCCL_HOSTID", fmt::format("r{}", rank)},
          {"NCCL_NET", "Socket"},
          {"NCCL_IB_DISABLE", "1"},
          {"NCCL_SOCKET_IFNAME", "lo"},
          {"NCCL_MNNVL_ENABLE", "0"},
          {"NCCL_NVLS_ENABLE", "0"},
          {"NCCL_MAX_CTAS", "2"}};
}

void apply(EnvironmentSettings const& settings) {
  for (auto const& [name, value] : settings)
    VALIDATE(setenv(name.c_str(), value.c_str(), 1) == 0, fmt::format("setenv {} failed", name));
}

std::string text_of(NcclOptions const& options, bool share_gpu) {
  std::vector<std::string> parts;
  if (!options.algo.empty()) parts.push_back("algo=" + options.algo);
  if (!options.proto.empty()) parts.push_back("proto=" + options.proto);
  if (options.channels > 0) parts.push_back(fmt::format("channels={}", options.channels));
  if (share_gpu) parts.emplace_back("share-gpu");
  return fmt::format("{}", fmt::join(parts, " "));
}

}  // namespace shardbench
