#include "tests/kernels/compare.hpp"

namespace shardbench::test {
namespace {

struct State {
  Tensor parameter, master, exp_avg, exp_avg_sq;
};

State random_state(std::int64_t count, Dtype parameter_dtype) {
  Tensor const master = Tensor::random(Dtype::f32, count, 1);
  Tensor square = Tensor::random(Dtype::f32, count, 3);
  for (std::int64_t i = 0; i < count; ++i) square.set(i, square.at(i) * square.at(i));
  return {master.as(parameter_dtype), master, Tensor::random(Dtype::f32, count, 2), square};
}

AdamWArgs args_for(State& state, Tensor const& gradient, bool with_master) {
  AdamWArgs args;
  args.parameter = state.parameter.data();
  args.master = with_master ? state.master.floats() : nullptr;
  args.exp_avg = state.exp_avg.floats();
  args.exp_avg_sq = state.exp_avg_sq.floats();
  args.gradient = gradient.data();
  args.count = gradient.count();
  args.step = 3;
  args.learning_rate = 0.01f;
  args.parameter_dtype = state.parameter.dtype();
  args.gradient_dtype = gradient.dtype();
  return args;
}

TEST(AdamW, HostEqualsReference) {
  float const clip = 0.5f;
  for (Dtype const parameter_dtype : storage_dtypes) {
    for (Dtype const gradient_dtype : storage_dtypes) {
      for (std::int64_t const count : {1, 37, 1000}) {
        bool const with_master = parameter_dtype == Dtype::bf16;
        Tensor const gradient = Tensor::random(gradient_dtype, count, 4);
        State actual = random_state(count, parameter_dtype), expected = actual;
        AdamWArgs args = args_for(actual, gradient, with_master);
        args.gradient_scale = count == 37 ? &clip : nullptr;
        run(host_kernels().adamw, args);
        AdamWArgs reference = args_for(expected, gradient, with_master);
        reference.gradient_scale = args.gradient_scale;
        run(reference_kernels().adamw, reference);
        EXPECT_TRUE(close(actual.parameter, expected.parameter, tolerance(parameter_dtype)));
        EXPECT_TRUE(close(actual.master, expected.master, tolerance(Dtype::f32)));
        EXPECT_TRUE(close(actual.exp_avg, expected.exp_avg, tolerance(Dtype::f32)));
        EXPECT_TRUE(close(actual.exp_avg_sq, expected.exp_avg_sq, tolerance(Dtype::f32)));
      }
    }
  }
}

TEST(AdamW, FirstStepMovesByTheLearningRate) {
  Tensor gradient(Dtype::f32, 2);
  gradient.set(0, 3e-3);
  gradient.set(1, -50);
  State state = random_state(2, Dtype::f32);
  for (std::int64_t i = 0; i < 2; ++i) {
    state.parameter.set(i, 2);
    state.exp_avg.set(i, 0);
    state.exp_avg_sq.set(i, 0);
  }
  AdamWArgs args = args_for(state, gradient, false);
  args.step = 1;
  args.weight_decay = 0.5f;
  run(host_kernels().adamw, args);
  EXPECT_NEAR(state.parameter.at(0), 2 - 0.01 * 0.5 * 2 - 0.01, 1e-6);
  EXPECT_NEAR(state.parameter.at(1), 2 - 0.01 * 0.5 * 2 + 0.01, 1e-6);
}

TEST(AdamW, SmallUpdatesReachTheMasterBelowBf16) {
  Tensor gradient(Dtype::f32, 1);
  gradient.set(0, 1);
  State state = random_state(1, Dtype::bf16);
  state.master.set(0, 1);
  state.parameter.set(0, 1);
  state.exp_avg.set(0, 0);
  state.exp_avg_sq.set(0, 0);
  AdamWArgs args = args_for(state, gradient, true);
  args.learning_rate = 1e-4f;
  args.weight_decay = 0;
  args.step = 1;
  run(host_kernels().adamw, args);
  EXPECT_EQ(state.parameter.at(0), 1);
  EXPECT_NEAR(state.master.at(0), 1 - 1e-4, 1e-7);
}

TEST(AdamW, RefusesStepZero) {
  Tensor const gradient = Tensor::random(Dtype::f32, 1, 1);
  State state = random_state(1, Dtype::f32);
  AdamWArgs args = args_for(state, gradient, false);
  args.step = 0;
  EXPECT_THROW(run(host_kernels().adamw, args), Error);
}

}  // namespace
}  // namespace shardbench::test
