// One rank: decoding with the cache gives at each position what the whole prompt gives there.
#include <gtest/gtest.h>

#include <cmath>

#include "harness/exec/runner.hpp"
#include "harness/program/passes/lower.hpp"
#include "kernels/core/error.hpp"
#include "tests/harness/exec/small_models.hpp"

namespace shardbench::test {
namespace {

Experiment inference(ModelConfig const& model, PhaseKind phase, std::int64_t seq) {
  Experiment e;
  e.model_name = model.name;
  e.model = model;
  e.phase = phase;
  e.seq = seq;
  e.micro_batch = 2;
  e.global_batch = 4;
  e.device = DeviceKind::cpu;
  resolve(e);
  return e;
}

struct Alone {
  explicit Alone(Experiment const& e)
      : device(make_host_device()), self(make_self_communicator()), runner(lower(e, 0), *device, *self) {
    runner.initialize(e.seed);
  }
  void step() {
    runner.run_gradients();
    runner.synchronize();
  }
  std::vector<float> logits(std::int32_t microbatch) {
    return runner.read(runner.program().inference.logits, microbatch);
  }
  std::unique_ptr<Device> device;
  std::unique_ptr<Communicator> self;
  Runner runner;
};

class Decode : public testing::TestWithParam<ModelConfig (*)(std::int64_t)> {};

TEST_P(Decode, WithTheCacheIsTheWholePromptAtEachPosition) {
  constexpr std::int64_t length = 8;  // more than the window of those that have one
  ModelConfig const model = GetParam()(3);
  Alone decode(inference(model, PhaseKind::decode, length));
  for (std::int64_t position = 0; position < length; ++position) {
    decode.runner.set_position(position);
    decode.runner.set_prompt(1234);
    Alone prompt(inference(model, PhaseKind::prefill, position + 1));
    decode.step();
    prompt.step();
    for (std::int32_t m = 0; m < 2; ++m) {
      auto const expected = prompt.logits(m), actual = decode.logits(m);
      ASSERT_EQ(actual.size(), expected.size());
      double squares = 0;
      for (float const x : expected) squares += static_cast<double>(x) * static_cast<double>(x);
      double const rms = std::sqrt(squares / static_cast<double>(expected.size()));
      ASSERT_GT(rms, 1e-3);
      for (std::size_t i = 0; i < actual.size(); ++i)
        ASSERT_NEAR(actual[i], expected[i], 1e-4 * (rms + std::abs(static_cast<double>(expected[i])))) << position;
      EXPECT_EQ(decode.runner.read_tokens(decode.runner.program().inference.next_ids, m),
                prompt.runner.read_tokens(prompt.runner.program().inference.next_ids, m));
    }
  }
}

ModelConfig plain_llama(std::int64_t layers) { return small_llama(layers); }

INSTANTIATE_TEST_SUITE_P(Models, Decode,
                         testing::Values(small_gpt, plain_llama, small_qwen3, small_gemma2, small_gemma3, small_nope,
                                         small_neox, small_falcon, small_latent, small_latent_lite));

TEST(Inference, ChosenTokensAreFedBack) {
  Alone one(inference(small_llama(2), PhaseKind::decode, 6));
  one.runner.set_position(0);
  one.runner.set_prompt(1234);
  for (std::int64_t position = 0; position < 5; ++position) {
    one.runner.set_position(position);
    one.step();
    auto const logits = one.logits(1);
    auto const next = one.runner.read_tokens(one.runner.program().inputs.ids, 1);
    std::size_t const columns = logits.size() / 2;
    for (std::size_t b = 0; b < 2; ++b) {
      std::size_t best = 0;
      for (std::size_t c = 1; c < 300; ++c)
        if (logits[b * columns + c] > logits[b * columns + best]) best = c;
      EXPECT_EQ(next[b], static_cast<std::int32_t>(best));
    }
  }
}

TEST(Inference, PositionsBeyondTheCacheAreRefused) {
  Alone one(inference(small_llama(1), PhaseKind::decode, 6));
  EXPECT_NO_THROW(one.runner.set_position(5));
  EXPECT_THROW(one.runner.set_position(6), Error);
  EXPECT_THROW(one.runner.set_position(-1), Error);
}

TEST(Inference, HoldsWeightsAndCacheAndNothingElse) {
  Experiment const e = inference(small_llama(2), PhaseKind::decode, 6);
  Alone one(e);
  MemoryPlan const& plan = one.runner.stage().memory();
  EXPECT_EQ(plan.gradient_bytes, 0);
  EXPECT_EQ(plan.optimizer_bytes, 0);
  // 2 layers, 6 positions, 4 samples, keys and values of 2 heads of 8 in fp32.
  EXPECT_EQ(plan.kv_cache_bytes, 2 * 6 * 4 * 2 * 2 * 8 * 4);
}

}  // namespace
}  // namespace shardbench::test
