// Every rank runs every test; rank 0 speaks, and the exit code is the worst of all ranks.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "harness/comm/communicator.hpp"
#include "kernels/core/stream_host.hpp"

namespace {

/// Of the ranks that are otherwise silent: what failed there alone would never be seen.
class FailurePrinter final : public testing::EmptyTestEventListener {
 public:
  explicit FailurePrinter(int rank) : rank_(rank) {}
  void OnTestStart(testing::TestInfo const& test) override {
    test_ = std::string(test.test_suite_name()) + "." + test.name();
  }
  void OnTestPartResult(testing::TestPartResult const& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d, %s: %s:%d: %s\n", rank_, test_.c_str(), result.file_name() ? result.file_name() : "",
                 result.line_number(), result.message());
  }

 private:
  int rank_;
  std::string test_;  ///< GoogleTest holds its lock when results come, so it cannot be asked then
};

}  // namespace

int main(int argc, char** argv) {
  shardbench::MpiProcess mpi(&argc, &argv);
  testing::InitGoogleTest(&argc, argv);
  auto world = shardbench::make_mpi_communicator();
  if (world->rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter(world->rank()));
  }
  int const result = RUN_ALL_TESTS();
  float failed = static_cast<float>(result);
  shardbench::InlineStream stream;
  world->all_reduce({&failed, 1, shardbench::Dtype::f32}, shardbench::ReduceOp::max, stream);
  return failed != 0;
}
