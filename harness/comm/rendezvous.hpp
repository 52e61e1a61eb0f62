#pragma once
#include <optional>
#include <string>

#include "harness/comm/launch_env.hpp"

namespace shardbench {

/// Where the ranks of a job started without MPI meet: rank 0 listens there, the others come to it.
struct Rendezvous {
  int rank = 0;
  int size = 1;
  std::string address;  ///< host name or IP of rank 0's machine
  int port = 0;
};

/// The meeting that RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT name, as torchrun and cluster operators set them;
/// nothing when one is not set. The port after MASTER_PORT where torchrun's own store holds that one
/// (TORCHELASTIC_USE_AGENT_STORE=True). Throws InputError naming the variable that cannot be read.
std::optional<Rendezvous> rendezvous_of(Environment const& environment = process_environment);

}  // namespace shardbench
