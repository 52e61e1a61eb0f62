#pragma once
#include <memory>
#include <string>

#include "harness/comm/communicator.hpp"
#include "kernels/core/cuda/stream.hpp"

namespace shardbench {

/// NCCL over the ranks of `bootstrap`, a host communicator, each on its own GPU. Non-blocking, under a watchdog: after
/// `timeout_seconds` without progress everything is aborted and the next wait for the device throws. Collective.
std::unique_ptr<Communicator> make_nccl_communicator(Communicator& bootstrap, CudaDevice& device,
                                                     double timeout_seconds);

/// "2.28.9".
std::string nccl_version();

}  // namespace shardbench
