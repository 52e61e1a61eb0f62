// Vision transformers and convolutional networks: a cut step equals the unsharded one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/harness/exec/expect_parity.hpp"
#include "tests/harness/exec/small_models.hpp"

namespace shardbench::test {
namespace {

/// Two images a microbatch, so that the class tokens are more than one row.
Experiment vit_experiment(ModelConfig const& model, Cut const& p) {
  Experiment e = small_experiment(model, p);
  e.micro_batch = 2;
  e.global_batch = 16;
  resolve(e);
  return e;
}

TEST(VisionTransformer, EveryProductOfDataTensorAndPipelineParallelism) {
  for (Cut const& p : all_products(world().size())) {
    if (world().size() == 8 && std::max({p.dp, p.tp, p.pp}) == 4) continue;
    for (bool const class_token : {true, false}) {
      ParityReport const report =
          expect_equal_steps(vit_experiment(small_vit(class_token, std::max<std::int64_t>(p.pp, 2)), p));
      double const outputs = class_token ? 300 : 48;
      EXPECT_GT(report.reference_loss, 0.5 * std::log(outputs));
      EXPECT_LT(report.reference_loss, 2 * std::log(outputs));
    }
  }
}

TEST(VisionTransformer, SequenceParallel) {
  for (Cut p : all_products(world().size())) {
    if (p.tp == 1 || p.tp == 4) continue;
    p.sequence_parallel = true;
    std::int64_t const layers = std::max<std::int64_t>(p.pp, 2);
    expect_equal_steps(vit_experiment(small_vit(false, layers), p));
    if (p.tp == 2) expect_equal_steps(vit_experiment(small_vit(true, layers), p));
  }
}

TEST(VisionTransformer, ParallelBlocksWithNormedHeads) {
  for (Cut p : all_products(world().size())) {
    if (world().size() == 8 && std::max({p.dp, p.tp, p.pp}) == 4) continue;
    p.sequence_parallel = p.tp == 2;
    expect_equal_steps(vit_experiment(small_vit_22b(std::max<std::int64_t>(p.pp, 2)), p));
  }
}

TEST(VisionTransformer, ShardedStatesAndRecompute) {
  for (int const stage : {1, 2, 3}) {
    Cut p = cut(2, world().size() / 2, 1);
    p.zero_stage = stage;
    p.recompute = stage == 2 ? Recompute::full : Recompute::none;
    expect_equal_steps(vit_experiment(small_vit(stage == 1), p));
  }
}

TEST(VisionTransformer, Bfloat16) {
  Experiment e = vit_experiment(small_vit(true), cut(world().size() / 2, 2, 1));
  e.precision = Dtype::bf16;
  expect_equal_steps(e);
}

/// Two microbatches of two images a rank: each is normalised on its own, in the unsharded step too.
Experiment yolo_experiment(bool deep_everywhere) {
  Experiment e = small_experiment(small_yolo(deep_everywhere), cut(world().size(), 1, 1));
  e.micro_batch = 2;
  e.global_batch = 4 * world().size();
  resolve(e);
  return e;
}

TEST(Yolo, DataParallelWholeNetwork) {
  for (bool const deep : {false, true}) expect_equal_steps(yolo_experiment(deep));
}

TEST(Yolo, BlocksWithShardedOptimizerAndRecompute) {
  Experiment e = yolo_experiment(false);
  e.scope = Scope::layer;
  for (int const stage : {1, 2}) {
    e.cut.zero_stage = stage;
    e.cut.recompute = stage == 2 ? Recompute::full : Recompute::none;
    expect_equal_steps(e);
  }
}

TEST(Yolo, Bfloat16) {
  Experiment e = yolo_experiment(false);
  e.precision = Dtype::bf16;
  expect_equal_steps(e);
}

}  // namespace
}  // namespace shardbench::test
