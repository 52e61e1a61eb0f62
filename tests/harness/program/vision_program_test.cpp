// What vision transformers and detectors are lowered to, at their real sizes, against closed forms.
#include <gtest/gtest.h>

#include <numeric>

#include "harness/config/yolo.hpp"
#include "tests/harness/program/programs.hpp"

namespace shardbench::test {
namespace {

Experiment real_size(char const* name, std::int64_t dp = 1, std::int64_t classes = 0) {
  Experiment e;
  e.model_name = name;
  e.classes = classes;
  e.cut.dp = dp;
  e.global_batch = 2 * dp;
  resolve(e);
  return e;
}

std::int64_t lowered_parameters(StepProgram const& p) {
  std::int64_t sum = 0;
  for (Parameter const& parameter : p.parameters)
    for (ParameterSection const& s : parameter.sections) sum += s.global_rows * parameter.global_cols;
  return sum;
}

TEST(VisionProgram, HoldsTheParametersThatAreCounted) {
  for (char const* name :
       {"vit-l", "vit-h", "vit-g", "vit-bigg", "yolo26n", "yolo26s", "yolo26m", "yolo26l", "yolo26x"}) {
    Experiment const e = real_size(name);
    EXPECT_EQ(lowered_parameters(lower(e, 0)), count_parameters(e.model).total) << name;
  }
}

TEST(VisionProgram, ATransformerDoesTheWorkOfItsProducts) {
  Experiment const e = real_size("vit-l", 1, 1024);
  ModelConfig const& m = e.model;
  double const images = 2, tokens = 197, h = 1024, layers = 24;
  double const blocks = 6 * tokens * layers * (4 * h * h + 2 * h * 4096) + 12 * layers * h * tokens * tokens;
  double const patches = 4.0 * 196 * (16 * 16 * 3) * h;  // no gradient goes into the image
  double const head = 6 * h * 1024;                      // of the class token alone
  EXPECT_EQ(m.vision_tokens(), 197);
  EXPECT_NEAR(counted(lower(e, 0)).model_flops / (images * (blocks + patches + head)), 1, 1e-9);
}

TEST(VisionProgram, ADetectorDoesThreeTimesItsForwardWork) {
  for (char const* name : {"yolo26n", "yolo26x"}) {
    Experiment const e = real_size(name);
    YoloConfig const& config = *e.model.yolo;
    // The first layer's input is the image, which has no gradient.
    std::int64_t const stem = yolo_blocks(config).front().convs.front().flops();
    double const expected = 2.0 * static_cast<double>(3 * yolo_flops(config, true) - stem);
    EXPECT_NEAR(counted(lower(e, 0)).model_flops / expected, 1, 1e-12) << name;
    EXPECT_NEAR(counted(lower(e, 0)).model_flops_full / expected, 1, 1e-12) << name;
  }
}

TEST(VisionProgram, GradientsOfADetectorAreReducedOnceInBuckets) {
  Experiment e = real_size("yolo26n", 8);
  e.bucket_mb = 2;
  StepProgram const p = lower(e, 3);
  // 10.3 MB in buckets that close at 2 MB.
  EXPECT_GE(p.buckets.size(), 4u);
  EXPECT_LE(p.buckets.size(), 6u);
  std::int64_t const elements = std::accumulate(p.buckets.begin(), p.buckets.end(), std::int64_t{0},
                                                [](std::int64_t sum, Bucket const& b) { return sum + b.elements; });
  StepCount const c = counted(p);
  EXPECT_EQ(on(c, Axis::dp).payload_bytes, 4.0 * static_cast<double>(elements));
  EXPECT_NEAR(on(c, Axis::dp).payload_bytes, 4.0 * 2572280, 4.0 * 16 * static_cast<double>(p.parameters.size()));
  EXPECT_EQ(on(c, Axis::tp).calls, 0);
}

TEST(VisionProgram, TheClassTokenAloneCrossesTensorRanksAfterTheLastNorm) {
  // With the sequence cut, the pooled rows are a partial sum: one all-reduce of a row an image, not of the sequence.
  Cut p = cut(1, 2, 1);
  p.sequence_parallel = true;
  StepProgram const program = lower(small_experiment(small_vit(true), p), 1);
  double const rows = 8;  // images of the step
  EXPECT_EQ(payload_of(program, Axis::tp, OpKind::all_reduce, "head.input"), 2 * 4 * rows * 64);
}

}  // namespace
}  // namespace shardbench::test
