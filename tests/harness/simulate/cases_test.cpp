// Reports of people whose models did not fit, as the memory that is foretold.
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/program/passes/lower.hpp"
#include "harness/simulate/predict.hpp"
#include "tests/harness/exec/small_models.hpp"

namespace shardbench::test {
namespace {

MemoryFit fit_of(std::vector<LoweredStage> const& stages) {
  SoftwareStack stack = load_stack("ours");
  stack.reserved_gb = 0;
  return memory_fit(stages, load_system("h100-sxm"), stack);
}

/// A stage that holds weights of so many bytes.
StepProgram holding(std::int64_t stage, std::int64_t bytes) {
  StepProgram p;
  p.stage = stage;
  p.tensors.push_back({.name = "weights", .role = TensorRole::parameter, .dtype = Dtype::u8, .rows = bytes, .cols = 1});
  p.tensors.front().storage = 0;
  return p;
}

// The report's plan: 3160 a layer and 472 for the head make 9952 on the stage of three layers; 2 layers everywhere
// would be 6792, 31.8% too low.
TEST(Cases, M07_TheHeaviestStageDecides) {
  constexpr std::int64_t layer = 3160, head = 472;
  auto const plan = [&](std::vector<std::int64_t> const& layers) {
    std::vector<LoweredStage> stages;
    for (std::ptrdiff_t s = 0; s < std::ssize(layers); ++s)
      stages.push_back(holding(s, layers[s] * layer + (s + 1 == std::ssize(layers) ? head : 0)));
    return fit_of(stages);
  };
  MemoryFit const even = plan({2, 2, 2, 2}), uneven = plan({1, 2, 2, 3});
  EXPECT_EQ(even.needed_bytes, 6792);
  EXPECT_EQ(uneven.needed_bytes, 9952);
  EXPECT_EQ(uneven.stage, 3);
  EXPECT_NEAR(1 - even.needed_bytes / uneven.needed_bytes, 0.318, 0.0005);
}

// The same of lowered stages: an inner one is its layers, the first has the embedding besides, the last the head.
TEST(Cases, M07_StagesAreLayersAndTheirEnds) {
  constexpr std::int64_t stages = 4;
  auto const stage_of = [&](std::int64_t stage, std::int64_t layers) {
    return lower(small_experiment(small_llama(stages * layers), cut(1, 1, stages)), stage);
  };
  auto const weights = [&](std::int64_t stage, std::int64_t layers) {
    return fit_of({stage_of(stage, layers)}).parameter_bytes;
  };
  double const layer = weights(1, 1), embedding = weights(0, 1) - layer, head = weights(3, 1) - layer;
  EXPECT_GT(embedding, 0);
  EXPECT_GT(head, embedding) << "the last norm too";
  std::vector<std::int64_t> const layers{1, 2, 2, 3};
  std::vector<LoweredStage> lowered;
  std::vector<double> bytes;
  for (std::int64_t s = 0; s < stages; ++s) {
    std::int64_t const n = layers[s];
    lowered.push_back(stage_of(s, n));
    bytes.push_back(fit_of({lowered.back()}).needed_bytes);
    EXPECT_EQ(weights(s, n), static_cast<double>(n) * layer + (s == 0 ? embedding : s == 3 ? head : 0)) << s;
  }
  MemoryFit const all = fit_of(lowered);
  EXPECT_EQ(all.needed_bytes, *std::ranges::max_element(bytes));
  EXPECT_EQ(all.stage, std::ranges::max_element(bytes) - bytes.begin());
}

}  // namespace
}  // namespace shardbench::test
