#include "harness/comm/nccl_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

constexpr int most_channels = 64;  // NCCL's MAXCHANNELS

void require_one_of(char const* flag, std::string const& value, std::vector<std::string> const& allowed) {
  if (std::ranges::find(allowed, value) != allowed.end()) return;
  throw InputError(fmt::format("{}: '{}' is no name that NCCL knows (allowed: {})", flag, value, fmt::join(allowed, ", ")));
}

}  // namespace

std::vector<std::string> const& nccl_algorithms() {
  static std::vector<std::string> const names{"Ring", "Tree", "CollnetDirect", "CollnetChain", "NVLS", "NVLSTree"};
  return names;
}

std::vector<std::string> const& nccl_protocols() {
  static std::vector<std::string> const names{"LL", "LL128", "Simple"};
  return names;
}

EnvironmentSettings nccl_environment(NcclOptions const& options) {
  EnvironmentSettings settings;
  if (!options.algo.empty()) {
    require_one_of("--nccl-algo", options.algo, nccl_algorithms());
    settings.emplace_back("NCCL_ALGO", options.algo);
  }
  if (!options.proto.empty()) {
    require_one_of("--nccl-proto", options.proto, nccl_protocols());
    settings.emplace_back("NCCL_PROTO", options.proto);
  }
  if (options.channels < 0 || options.channels > most_channels)
    throw InputError(fmt::format("--nccl-channels: {} (allowed: 1 to {}, or 0 for NCCL's own choice)", options.channels, most_channels));
  if (options.channels > 0) {
    settings.emplace_back("NCCL_MIN_NCHANNELS", std::to_string(options.channels));
    settings.emplace_back("NCCL_MAX_NCHANNELS", std::to_string(options.channels));
  }
  return settings;
}

EnvironmentSettings shared_gpu_environment(int rank) {
  return {{"NCCL_HOSTID", fmt::format("r{}", rank)},
          {"NCCL_NET", "Socket"},
          {"NCCL_IB_DISABLE", "1"},
          {"NCCL_SOCKET_IFNAME", "lo"},
          {"NCCL_MNNVL_ENABLE", "0"},
          {"NCCL_NVLS_ENABLE", "0"},
          {"NCCL_MAX_CTAS", "2"}};
}

void apply(EnvironmentSettings const& settings) {
  for (auto const& [name, value] : settings) VALIDATE(setenv(name.c_str(), value.c_str(), 1) == 0, fmt::format("setenv {} failed", name));
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
