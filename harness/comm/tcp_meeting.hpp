#pragma once
#include <vector>

#include "harness/comm/launch_env.hpp"
#include "harness/comm/tcp_socket.hpp"

namespace shardbench {

/// Meets the other ranks of a job without MPI and returns a connection to each, by rank; none to this rank itself.
/// Both ends of a connection prove that they know the job's secret; strangers are served beside the ranks, let nobody
/// wait and are never let in. What is sent afterwards is neither encrypted nor signed. Throws InputError for variables
/// that contradict each other and for a meeting beyond this machine without a secret, Error naming the ranks that did
/// not come before `deadline` (now_seconds()). Collective.
std::vector<Socket> meet(Rendezvous const& rendezvous, double deadline);

}  // namespace shardbench
