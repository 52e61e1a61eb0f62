#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "harness/comm/communicator.hpp"
#include "kernels/core/error.hpp"
#include "kernels/core/stream_host.hpp"
#include "tests/harness/comm/backends.hpp"

namespace shardbench::test {
namespace {

TEST(Meeting, MissingAndDisagreeingRanksAreNamed) {
  auto all = make_mpi_communicator();
  int const rank = all->rank(), size = all->size();
  auto const message = [&](Rendezvous const& meeting, double timeout) -> std::string {
    try {
      make_tcp_communicator(meeting, timeout);
    } catch (Error const& error) {
      return error.what();
    }
    return "no error";
  };
  int port = free_port(*all);
  if (rank == 0) {
    EXPECT_EQ(message({0, size + 1, "localhost", port}, 0.1),
              fmt::format("rank(s) {} of {} did not come to localhost port {} in time",
                          size == 2   ? "1, 2"
                          : size == 4 ? "1, 2, 3, 4"
                                      : "1, 2, 3, 4, 5",
                          size + 1, port));
    EXPECT_NE(message({0, 2, "no.such.host.invalid", port}, 0.1).find("MASTER_ADDR is 'no.such.host.invalid'"),
              std::string::npos);
  }
  port = free_port(*all);
  if (rank > 1) return all->barrier();
  std::string const text = message({rank, rank == 0 ? 2 : 3, "localhost", port}, 10);
  EXPECT_NE(text.find(rank == 0 ? "WORLD_SIZE: rank 1 has 3, rank 0 has 2" : "was not let in"), std::string::npos)
      << text;
  all->barrier();
}

TEST(Meeting, ARankThatLeavesIsNoticed) {
  auto all = make_mpi_communicator();
  int const port = free_port(*all);
  InlineStream stream;
  auto world = make_tcp_communicator({all->rank(), all->size(), "127.0.0.1", port}, 30);
  float value = 1;
  if (all->rank() == 0) {
    EXPECT_THROW(world->receive({&value, 1, Dtype::f32}, 1, 0, stream), Error);
  }
}

}  // namespace
}  // namespace shardbench::test
