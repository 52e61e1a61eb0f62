// Every rank runs every test; rank 0 speaks, and the exit code is the worst of all ranks.
#include <gtest/gtest.h>

#include "harness/comm/communicator.hpp"
#include "kernels/core/stream_host.hpp"

int main(int argc, char** argv) {
  shardbench::MpiProcess mpi(&argc, &argv);
  testing::InitGoogleTest(&argc, argv);
  auto world = shardbench::make_mpi_communicator();
  if (world->rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
  }
  int const result = RUN_ALL_TESTS();
  float failed = static_cast<float>(result);
  shardbench::InlineStream stream;
  world->all_reduce({&failed, 1, shardbench::Dtype::f32}, shardbench::ReduceOp::max, stream);
  return failed != 0;
}
