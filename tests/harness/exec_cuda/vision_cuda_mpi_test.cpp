// Vision models on the emulated GPU.
#include <algorithm>

#include "tests/harness/exec_cuda/emulated_job.hpp"

namespace shardbench::test {
namespace {

class EmulatedVision : public testing::Test {
 protected:
  static void SetUpTestSuite() { job_ = std::make_unique<EmulatedJob>(); }
  static void TearDownTestSuite() { job_.reset(); }
  static std::unique_ptr<EmulatedJob> job_;
};

std::unique_ptr<EmulatedJob> EmulatedVision::job_;

TEST_F(EmulatedVision, TransformersUnderEveryProduct) {
  for (Cut p : all_products(world().size())) {
    std::int64_t const layers = std::max<std::int64_t>(p.pp, 2);
    expect_parity(*job_, emulated_experiment(small_vit(true, layers), p), 1);
    p.sequence_parallel = p.tp > 1;
    expect_parity(*job_, emulated_experiment(small_vit(false, layers), p), 1);
  }
}

TEST_F(EmulatedVision, DetectorsUnderDataParallelism) {
  for (bool const deep : {false, true}) {
    Experiment e = emulated_experiment(small_yolo(deep), cut(world().size(), 1, 1), 2 * world().size());
    e.micro_batch = 2;
    e.scope = deep ? Scope::layer : Scope::model;
    expect_parity(*job_, e, 1);
  }
}

}  // namespace
}  // namespace shardbench::test
