#pragma once
// The ranks of a test job, which MPI started, over MPI or over TCP.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "harness/comm/communicator.hpp"
#include "harness/comm/launch_env.hpp"
#include "kernels/core/stream_host.hpp"

namespace shardbench::test {

enum class Backend { mpi, tcp };

/// A port that was free a moment ago, rank 0's choice.
inline int free_port(Communicator& world) {
  int port = 0;
  if (world.rank() == 0) {
    int const probe = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    socklen_t length = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(probe, any, length) == 0 && ::getsockname(probe, any, &length) == 0) port = ntohs(address.sin_port);
    ::close(probe);
  }
  InlineStream stream;
  world.broadcast({&port, 1, Dtype::i32}, 0, stream);
  return port;
}

/// All ranks of the job, which MPI started, over either.
inline std::unique_ptr<Communicator> make_world(Backend backend, std::size_t largest_count = largest_mpi_count) {
  auto world = make_mpi_communicator(largest_count);
  if (backend == Backend::mpi) return world;
  return make_tcp_communicator({world->rank(), world->size(), "localhost", free_port(*world)}, 30);
}

class EachBackend : public testing::TestWithParam<Backend> {
 protected:
  std::unique_ptr<Communicator> world = make_world(GetParam());
};

inline std::string backend_name(testing::TestParamInfo<Backend> const& info) {
  return info.param == Backend::mpi ? "mpi" : "tcp";
}

}  // namespace shardbench::test
