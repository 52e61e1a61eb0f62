#pragma once
#include <string>
#include <utility>
#include <vector>

namespace shardbench {

/// Environment variables, by name and value.
using EnvironmentSettings = std::vector<std::pair<std::string, std::string>>;

/// How NCCL is told to communicate; what is empty or 0 is left to NCCL.
struct NcclOptions {
  std::string algo;   ///< as NCCL_ALGO takes it
  std::string proto;  ///< as NCCL_PROTO takes it
  int channels = 0;   ///< exactly that many
  bool operator==(NcclOptions const&) const = default;
};

/// The variables that ask NCCL for these options.
EnvironmentSettings nccl_environment(NcclOptions const& options);

/// Variables with which ranks may share a GPU, for functional runs only: NCCL refuses two ranks of one host and device,
/// so each rank gets a host of its own and they meet over sockets on loopback.
EnvironmentSettings shared_gpu_environment(int rank);

/// Sets the variables for this process; NCCL reads them at its first communicator.
void apply(EnvironmentSettings const& settings);

/// "algo=Ring proto=LL128 channels=8", with "share-gpu" added where ranks share one; for the comm_options column.
std::string text_of(NcclOptions const& options, bool share_gpu);

}  // namespace shardbench
