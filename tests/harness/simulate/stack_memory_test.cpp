// What a software stack keeps and takes beside the tensors of a step, by hand.
#include <gtest/gtest.h>

#include "harness/program/passes/lower.hpp"
#include "harness/simulate/predict.hpp"
#include "tests/harness/exec/small_models.hpp"

namespace shardbench::test {
namespace {

double peak_of(Experiment const& e, SoftwareStack const& stack) {
  StepProgram const p = with_stack(lower(e, 0), stack);
  return static_cast<double>(plan_sizes(p, Replay(p)).activation_peak_bytes);
}

// A loss in fp32 has a copy of the logits and its softmax in forward, the softmax and a gradient in backward: 4 bytes a
// logit each, beside the logits of 2.
TEST(StackMemory, LogitsInFp32) {
  ModelConfig model = small_llama(1);
  model.vocab = 8192;
  Experiment e = small_experiment(model, cut(1, 1, 1));
  e.precision = Dtype::bf16;
  SoftwareStack const plain = load_stack("te-2025");
  SoftwareStack fp32 = plain;
  fp32.logits_bytes = fp32.loss_working_bytes = 4;
  double const logits = 16 * 8192;
  EXPECT_NEAR(peak_of(e, fp32) - peak_of(e, plain), (4 + 4) * logits, 0.02 * logits);
  e.loss_chunks = 4;
  double const kept = 4 * logits;  // the softmax of each piece stays until its backward
  EXPECT_LT(peak_of(e, fp32) - peak_of(e, plain), kept + (4 + 4) * logits / 4);
}

TEST(StackMemory, MomentsInBf16) {
  Experiment e = small_experiment(small_llama(2), cut(1, 1, 1));
  e.precision = Dtype::bf16;
  SoftwareStack stack = load_stack("te-2025");
  auto const bytes = [&] {
    StepProgram const p = with_stack(lower(e, 0), stack);
    return plan_sizes(p, Replay(p)).optimizer_bytes;
  };
  std::int64_t const whole = bytes();
  stack.moment_bytes = 2;
  EXPECT_EQ(12 * bytes(), 8 * whole) << "fp32 masters and two moments";
}

TEST(StackMemory, ByItsParts) {
  SoftwareStack stack;
  stack.context_gb = 0.5, stack.workspace_gb = 0.25, stack.communicator_gb = 0.125, stack.fragmentation = 0.1;
  FrameworkBytes const bytes = framework_bytes(stack, 3, 10e9);
  EXPECT_DOUBLE_EQ(bytes.context, 0.5e9);
  EXPECT_DOUBLE_EQ(bytes.workspace, 0.25e9);
  EXPECT_DOUBLE_EQ(bytes.communicators, 0.375e9);
  EXPECT_DOUBLE_EQ(bytes.fragmentation, 1e9);
  EXPECT_DOUBLE_EQ(bytes.total(), 2.125e9);
  EXPECT_EQ(communicators_of(lower(small_experiment(small_llama(2), cut(1, 1, 1)), 0)), 0);
  EXPECT_EQ(communicators_of(lower(small_experiment(small_llama(2), cut(1, 2, 1)), 0)), 1);
  EXPECT_EQ(communicators_of(lower(small_experiment(small_llama(2), cut(2, 2, 1)), 0)), 2);
}

// DeepSeek-V3 report, sections 3.2 and 3.3: 2,048 H800 of 80 GB, 16 stages of DualPipe, experts over 64 ranks, norms,
// up projections and SwiGLU computed again, moments in bf16, activations of experts kept in fp8.
TEST(StackMemory, DeepSeekV3FitsWithItsPublishedRecomputation) {
  auto const needed_gb = [](std::string const& modules) {
    Experiment const e = experiment_of_command(
        "shardbench simulate --model deepseek-v3 --pp 16 --ep 64 --dp 128 --schedule dualpipe --zero 1 --seq 4096 "
        "--global-batch 15360 --precision bf16 --recompute-modules " +
        modules);
    SoftwareStack const stack = load_stack("te-2025-fp8-moe");
    return memory_fit(with_stack(lower_step(e).stages, stack), load_system("h800"), stack).needed_bytes / 1e9;
  };
  EXPECT_LT(needed_gb("layernorm+mla_up_proj+activation"), 80);
  EXPECT_GT(needed_gb("none"), 120);
}

}  // namespace
}  // namespace shardbench::test
