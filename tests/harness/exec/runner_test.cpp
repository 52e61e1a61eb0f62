// One rank: gradients against finite differences of the loss, and what does not depend on how the batch is cut.
#include "harness/exec/runner.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/exec/parameter_values.hpp"
#include "harness/program/passes/lower.hpp"
#include "kernels/core/error.hpp"
#include "tests/harness/exec/small_models.hpp"

namespace shardbench::test {
namespace {

struct Alone {
  explicit Alone(Experiment const& e)
      : device(make_host_device()), self(make_self_communicator()), runner(lower(e, 0), *device, *self) {
    runner.initialize(e.seed);
  }
  double loss() {
    runner.run_gradients();
    runner.synchronize();
    return local_loss(runner);
  }
  std::unique_ptr<Device> device;
  std::unique_ptr<Communicator> self;
  Runner runner;
};

class Gradients : public testing::TestWithParam<ModelConfig (*)(std::int64_t)> {};

// Along a parameter's gradient the loss changes by its squared length.
TEST_P(Gradients, AreTheSlopesOfTheLoss) {
  ModelConfig const model = GetParam()(2);
  Alone one(small_experiment(model, cut(1, 1, 1)));
  EXPECT_NEAR(one.loss(), std::log(300.0), 0.6);
  for (Parameter const& p : one.runner.program().parameters) {
    std::vector<float> const weight = one.runner.read(p.weight);
    one.loss();
    std::vector<float> const gradient = one.runner.read(p.gradient);
    double length = 0;
    for (float const g : gradient) length += static_cast<double>(g) * static_cast<double>(g);
    length = std::sqrt(length);
    ASSERT_GT(length, 0) << p.name;
    // A step long enough that the difference stands out of fp32, short enough to be straight.
    double const step = std::min(0.015, 0.02 / length);
    if (2 * step * length < 2e-4) continue;  // gradients that are zero in exact arithmetic (a key's bias)
    auto const at = [&](double distance) {
      std::vector<float> moved = weight;
      for (std::size_t i = 0; i < moved.size(); ++i)
        moved[i] += static_cast<float>(distance * static_cast<double>(gradient[i]) / length);
      one.runner.write(p.weight, moved);
      return one.loss();
    };
    double const slope = (at(step) - at(-step)) / (2 * step);
    one.runner.write(p.weight, weight);
    EXPECT_NEAR(slope, length, 0.03 * length + 1e-5) << p.name;
  }
}

ModelConfig plain_llama(std::int64_t layers) { return small_llama(layers); }

INSTANTIATE_TEST_SUITE_P(Models, Gradients,
                         testing::Values(small_gpt, plain_llama, small_qwen3, small_gemma2, small_neox, small_falcon,
                                         small_latent, small_latent_lite));

// The reference of partially synchronised tensor parallelism is a function of its weights like any other.
TEST(Streams, GradientsAreTheSlopesOfTheLoss) {
  Experiment e = small_experiment(small_gpt(2), cut(1, 1, 1));
  e.cut.streams = 2;
  e.cut.tp_sync_fraction = 0.5;
  Alone one(e);
  double const loss = one.loss();
  EXPECT_NEAR(loss, std::log(300.0), 0.6);
  for (Parameter const& p : one.runner.program().parameters) {
    std::vector<float> const weight = one.runner.read(p.weight);
    one.loss();
    std::vector<float> const gradient = one.runner.read(p.gradient);
    double length = 0;
    for (float const g : gradient) length += static_cast<double>(g) * static_cast<double>(g);
    length = std::sqrt(length);
    double const step = std::min(0.015, 0.02 / length);
    if (2 * step * length < 2e-4) continue;
    auto const at = [&](double distance) {
      std::vector<float> moved = weight;
      for (std::size_t i = 0; i < moved.size(); ++i)
        moved[i] += static_cast<float>(distance * static_cast<double>(gradient[i]) / length);
      one.runner.write(p.weight, moved);
      return one.loss();
    };
    double const slope = (at(step) - at(-step)) / (2 * step);
    one.runner.write(p.weight, weight);
    EXPECT_NEAR(slope, length, 0.03 * length + 1e-5) << p.name;
  }
}

TEST(Streams, AllChannelsSynchronisedIsTheModelItself) {
  for (bool const llama : {false, true}) {
    Experiment e = small_experiment(llama ? small_llama(2) : small_gpt(2), cut(1, 1, 1));
    Alone plain(e);
    double const loss = plain.loss();
    e.cut.streams = 4;
    Alone streams(e);
    EXPECT_NEAR(streams.loss(), loss, 1e-5);
    e.cut.tp_sync_fraction = 0.5;
    Alone partial(e);
    EXPECT_GT(std::abs(partial.loss() - loss), 1e-3) << "with private channels it is another model";
  }
}

TEST(Runner, MicrobatchesAddUpToTheBatch) {
  std::vector<std::vector<float>> reference;
  double loss = 0;
  for (std::int64_t const micro_batch : {1, 2, 8}) {
    Experiment e = small_experiment(small_llama(2), cut(1, 1, 1));
    e.micro_batch = micro_batch;
    Alone one(e);
    double const mine = one.loss();
    std::size_t i = 0;
    for (Parameter const& p : one.runner.program().parameters) {
      auto const g = one.runner.read(p.gradient);
      if (micro_batch == 1) {
        reference.push_back(g);
        continue;
      }
      double rms = 0;
      for (float const x : reference[i]) rms += static_cast<double>(x) * static_cast<double>(x);
      rms = std::sqrt(rms / static_cast<double>(g.size()));
      for (std::size_t k = 0; k < g.size(); ++k)
        ASSERT_NEAR(g[k], reference[i][k], 1e-4 * (rms + std::abs(reference[i][k])) + 1e-9) << p.name;
      ++i;
    }
    if (micro_batch == 1) loss = mine;
    EXPECT_NEAR(mine, loss, 1e-5);
  }
}

TEST(Runner, TrainingLowersTheLossAndRepeatsExactly) {
  double first = 0, last = 0;
  std::vector<double> losses[2];
  for (auto& run : losses) {
    Alone one(small_experiment(small_gpt(2), cut(1, 1, 1)));
    for (std::int64_t step = 1; step <= 8; ++step) {
      run.push_back(one.loss());
      one.runner.run_optimizer(step);
      one.runner.synchronize();
    }
    first = run.front(), last = run.back();
  }
  EXPECT_LT(last, first - 0.05);
  EXPECT_EQ(losses[0], losses[1]);
}

TEST(ParameterValues, AShardIsASliceOfTheWhole) {
  for (std::int64_t const tp : {2, 4}) {
    StepProgram const whole = lower(small_experiment(small_llama(1), cut(1, 1, 1)), 0);
    for (std::int64_t rank = 0; rank < tp; ++rank) {
      StepProgram const part = lower(small_experiment(small_llama(1), cut(1, tp, 1)), rank);
      for (std::size_t i = 0; i < part.parameters.size(); ++i) {
        Parameter const &a = whole.parameters[i], &b = part.parameters[i];
        ASSERT_EQ(a.name, b.name);
        auto const all = parameter_values(a, 7), mine = parameter_values(b, 7);
        std::int64_t at_whole = 0, at_part = 0;
        for (std::size_t s = 0; s < b.sections.size(); ++s) {
          for (std::int64_t r = 0; r < b.sections[s].rows; ++r) {
            std::int64_t const row = b.sections[s].row_begin + r;
            for (std::int64_t c = 0; c < b.cols; ++c) {
              float const value = mine[(at_part + r) * b.cols + c];
              float const expected =
                  row < b.sections[s].global_rows ? all[(at_whole + row) * a.cols + b.col_begin + c] : 0;
              ASSERT_EQ(value, expected) << b.name;
            }
          }
          at_whole += a.sections[s].rows, at_part += b.sections[s].rows;
        }
      }
    }
  }
}

TEST(Runner, ReadsBackWhatIsWritten) {
  Experiment e = small_experiment(small_gpt(1), cut(1, 1, 1));
  e.precision = Dtype::bf16;
  Alone one(e);
  Parameter const& p = one.runner.program().parameters.front();
  std::vector<float> values(static_cast<std::size_t>(p.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 128);
  one.runner.write(p.weight, values);
  EXPECT_EQ(one.runner.read(p.weight), values);
  EXPECT_THROW(one.runner.write(p.weight, std::vector<float>(3)), Error);
}

}  // namespace
}  // namespace shardbench::test
