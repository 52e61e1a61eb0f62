// The same unsharded step on the GPU and on the CPU: two sets of kernels that share little, one set of numbers.
#include <cmath>

#include "tests/harness/exec_cuda/emulated_job.hpp"

namespace shardbench::test {
namespace {

double rms(std::vector<float> const& values) {
  double sum = 0;
  for (float const v : values) sum += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

/// Largest |a - b| / (|b| + rms of b, or of a typical gradient where rounding is all that b is).
double relative_error(std::vector<float> const& actual, std::vector<float> const& expected, double floor) {
  double worst = 0;
  double const scale = std::max(rms(expected), floor);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    double const a = static_cast<double>(actual[i]), b = static_cast<double>(expected[i]);
    double const error = std::abs(a - b) / (std::abs(b) + scale);
    worst = std::isnan(error) ? HUGE_VAL : std::max(worst, error);
  }
  return worst;
}

void expect_same_step(ModelConfig const& model, Dtype precision) {
  Experiment e = small_experiment(model, cut(1, 1, 1));
  e.precision = precision;
  resolve(e);
  auto const none = make_self_communicator();
  DeviceHandle const gpu = EmulatedJob::open(), cpu = DeviceHandle::open(DeviceKind::cpu, 0);
  Runner on_gpu(lower(e, 0), gpu.device(), *none), on_cpu(lower(e, 0), cpu.device(), *none);
  double typical = 0;
  for (Runner* const runner : {&on_gpu, &on_cpu}) {
    runner->initialize(7);
    runner->run_gradients();
    runner->synchronize();
  }
  // fp32 sums in another order; in bf16 every stored activation and score may round the other way.
  double const limit = precision == Dtype::f32 ? 2e-3 : 0.35;
  EXPECT_NEAR(local_loss(on_gpu), local_loss(on_cpu), (precision == Dtype::f32 ? 1e-5 : 1e-2) * local_loss(on_cpu));
  StepProgram const& program = on_cpu.program();
  for (Parameter const& p : program.parameters) typical = std::max(typical, rms(on_cpu.read(p.gradient)));
  ASSERT_GT(typical, 0);
  for (Parameter const& p : program.parameters)
    EXPECT_LT(relative_error(on_gpu.read(p.gradient), on_cpu.read(p.gradient), 0.1 * typical), limit)
        << program.tensors[static_cast<std::size_t>(p.gradient)].name;
}

TEST(ParityWithHost, Fp32) {
  if (world().rank() > 0) GTEST_SKIP() << "one rank does it";
  expect_same_step(small_gpt(2), Dtype::f32);
  expect_same_step(small_llama(2), Dtype::f32);
}

TEST(ParityWithHost, Bf16) {
  if (world().rank() > 0) GTEST_SKIP() << "one rank does it";
  expect_same_step(small_gpt(2), Dtype::bf16);
  expect_same_step(small_llama(2), Dtype::bf16);
}

}  // namespace
}  // namespace shardbench::test
