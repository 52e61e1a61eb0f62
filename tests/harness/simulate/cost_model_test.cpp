#include "harness/simulate/cost_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "harness/program/passes/lower.hpp"
#include "harness/simulate/gemm_time.hpp"
#include "harness/simulate/predict.hpp"
#include "harness/simulate/stack_program.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

Experiment experiment_of(std::vector<std::pair<std::string, std::string>> const& fields) {
  Experiment e;
  for (auto const& [flag, value] : fields) set_field(e, flag, value);
  resolve(e);
  return e;
}

/// What the host takes to launch each op of the program once, on A100.
double issue_ms_of_all_ops(Experiment const& e, SoftwareStack const& stack) {
  CostModel const model(load_system("a100-80gb-sxm"), stack);
  StepProgram const program = lower(e, 0);
  double total = 0;
  for (Segment const& s : program.segments)
    for (Op const& op : s.ops) total += model.issue_ms(program, op);
  return total;
}

/// The 22B model of Korthikanti et al., Table 4 and Fig. 1: seq 2048, micro-batch 4, tp 8.
Experiment korthikanti_22b(std::vector<std::pair<std::string, std::string>> more) {
  std::vector<std::pair<std::string, std::string>> fields{
      {"model", "megatron-22b"}, {"seq", "2048"},       {"tp", "8"},
      {"micro-batch", "4"},      {"global-batch", "4"}, {"precision", "bf16"}};
  fields.insert(fields.end(), more.begin(), more.end());
  return experiment_of(fields);
}

double activation_bytes(Experiment const& e) {
  CostModel const model(load_system("a100-80gb-sxm"), load_stack("megatron-unfused"));
  return memory_fit({with_stack(lower(e, 0), model.stack())}, model.system(), model.stack()).activation_bytes;
}

TEST(GemmTime, IsNoFasterThanPeakAndMemoryAndGrowsWithTheShape) {
  DeviceProfile const a100 = load_system("a100-80gb-sxm").device;
  double last = 0;
  for (double const size : {64.0, 512.0, 1024.0, 4096.0, 8192.0}) {
    double const us = gemm_us(a100, Dtype::bf16, size, size, size, 2, 2);
    EXPECT_GT(us, 2 * size * size * size / (312e6));
    EXPECT_GT(us, last);
    last = us;
  }
  // One token's product reads the whole weight: memory decides, not FLOPs.
  double const decode = gemm_us(a100, Dtype::bf16, 1, 16384, 16384, 2, 2);
  EXPECT_NEAR(decode, 4.15 + 2.0 * 16384 * 16384 / (2039e3 * 0.727), 0.05 * decode);
}

// Measured on an A100 SXM (ai-dynamo/aiconfigurator, trtllm 1.0.0, bfloat16), products of sizes that training has.
TEST(GemmTime, AgreesWithMeasuredProducts) {
  DeviceProfile const a100 = load_system("a100-80gb-sxm").device;
  struct Row {
    double m, n, k, ms;
  };
  for (Row const& r : {Row{4096, 4096, 4096, 0.5141}, Row{8192, 8192, 12288, 6.2584}, Row{8192, 16384, 4096, 4.2792},
                       Row{8192, 1024, 4096, 0.3083}, Row{2048, 4096, 12288, 0.7767}})
    EXPECT_NEAR(gemm_us(a100, Dtype::bf16, r.m, r.n, r.k, 2, 2) / 1e3 / r.ms, 1, 0.12)
        << r.m << ' ' << r.n << ' ' << r.k;
}

// Case M05: 59.25 GiB without, 9.5625 GiB with sequence parallelism and selective recomputation, 48 layers.
TEST(Memory, ActivationsOfTheStackAreKorthikantisFormulaM05) {
  auto const kept_gib = [](std::vector<std::pair<std::string, std::string>> more) {
    more.insert(more.end(), {{"layers", "48"}, {"scope", "layer"}});
    return activation_bytes(korthikanti_22b(std::move(more))) / 0x1p30;
  };
  EXPECT_NEAR(kept_gib({}), 59.25, 0.005 * 59.25);
  EXPECT_NEAR(kept_gib({{"sequence-parallel", "true"}, {"recompute", "selective"}}), 9.5625, 0.005 * 9.5625);
}

// The first stage of a pipeline holds as many microbatches as there are stages, each with its block input and the mask
// of the dropout whose sum leaves the stage: s b h (10 + 24/t + 5as/(ht)) a layer (Korthikanti 2022, Table 2).
TEST(Memory, AStageKeepsTheInputsAndMasksOfItsMicrobatches) {
  Experiment const e =
      korthikanti_22b({{"layers", "8"}, {"pp", "4"}, {"scope", "layer"}, {"global-batch", "32"}, {"micro-batch", "1"}});
  double const sbh = 2048.0 * 6144, per_layer = sbh * (10 + 24 / 8.0 + 5 * 64 * 2048 / (6144 * 8.0));
  double const gradient_on_its_way = 2 * sbh;
  EXPECT_NEAR((activation_bytes(e) - gradient_on_its_way) / (4 * 2 * per_layer), 1, 0.001);
}

// Case M05: parameters and optimizer, 18 bytes for each of the 12 L h^2 weights of the blocks' matrices.
TEST(Memory, StatesAreEighteenBytesAParameter) {
  Experiment e = korthikanti_22b({{"layers", "48"}, {"scope", "layer"}});
  CostModel const model(load_system("a100-80gb-sxm"), load_stack("megatron-unfused"));
  LoweredStage const stage = with_stack(lower(e, 0), model.stack());
  MemoryFit const m = memory_fit({stage}, model.system(), model.stack());
  double const states = (m.parameter_bytes + m.gradient_bytes + m.optimizer_bytes) / 0x1p30;
  double matrices = 0;
  for (Parameter const& p : stage.program().parameters)
    if (p.global_cols > 1) matrices += static_cast<double>(p.elements());
  EXPECT_DOUBLE_EQ(18 * matrices / 0x1p30, 45.5625);
  EXPECT_NEAR(states, 45.5625, 0.002 * 45.5625);  // biases and norms besides
}

TEST(Memory, AMisfitNamesTensorsAndAChangeThatFits) {
  Experiment const e = experiment_of(
      {{"model", "megatron-7.5b"}, {"seq", "2048"}, {"dp", "8"}, {"precision", "bf16"}, {"layers", "36"}});
  SystemProfile const system = load_system("a100-80gb-sxm");
  SoftwareStack const stack = load_stack("ours");
  MemoryFit const m = memory_fit({lower(e, 0)}, system, stack);
  EXPECT_FALSE(m.fits());  // 18 bytes times 7.5e9
  EXPECT_EQ(m.largest.size(), 5u);
  std::string const change = smallest_change_that_fits(e, system, stack);
  EXPECT_EQ(change, "--zero 1");
}

// Case A05 through the whole prediction.
TEST(Prediction, ASlowerNetworkMakesALongerStep) {
  Experiment const e = experiment_of({{"model", "gpt2"},
                                      {"layers", "2"},
                                      {"seq", "128"},
                                      {"tp", "2"},
                                      {"dp", "2"},
                                      {"pp", "2"},
                                      {"global-batch", "8"},
                                      {"precision", "bf16"}});
  SystemProfile fast = load_system("pcie-box"), slow = fast;
  for (NetworkLevel& level : slow.network) level.bandwidth_gb_per_s /= 2;
  SoftwareStack const stack = load_stack("ours");
  double const a = predict_step(e, CostModel(fast, stack)).step_ms, b = predict_step(e, CostModel(slow, stack)).step_ms;
  EXPECT_GT(b, 1.2 * a);
  EXPECT_LT(b, 2 * a);
}

TEST(Prediction, PartsAddUpToTheStep) {
  Experiment const e = experiment_of({{"model", "gpt2"},
                                      {"layers", "4"},
                                      {"seq", "128"},
                                      {"tp", "2"},
                                      {"dp", "2"},
                                      {"pp", "2"},
                                      {"global-batch", "8"},
                                      {"precision", "bf16"}});
  Prediction const p = predict_step(e, CostModel(load_system("h100-sxm"), load_stack("te-2025")));
  Breakdown const& b = p.breakdown;
  EXPECT_NEAR(b.compute_ms + b.exposed_comm_ms + b.idle_ms, p.step_ms, 1e-9 * p.step_ms);
  EXPECT_GT(p.optimizer_ms, 0);
}

TEST(Prediction, ReductionsAfterBackwardTakeLongerThanBesideIt) {
  Experiment const e = experiment_of(
      {{"model", "megatron-1.7b"}, {"layers", "4"}, {"seq", "1024"}, {"dp", "16"}, {"precision", "bf16"}});
  SoftwareStack beside = load_stack("ours"), after = beside;
  after.dp_overlap = false;
  SystemProfile const system = load_system("a100-80gb-sxm");
  Prediction const a = predict_step(e, CostModel(system, beside)), b = predict_step(e, CostModel(system, after));
  EXPECT_GT(b.step_ms, a.step_ms);
  EXPECT_EQ(a.result.op_events, b.result.op_events);
}

TEST(Prediction, ASlowHostSetsTheFloorOfASmallModel) {
  Experiment const e = experiment_of({{"model", "gpt2"}, {"layers", "2"}, {"seq", "128"}, {"precision", "bf16"}});
  SoftwareStack stack = load_stack("ours");
  stack.host_us = 1000;
  Prediction const p = predict_step(e, CostModel(load_system("h100-sxm"), stack));
  std::int64_t launched = 0;
  for (Segment const& s : p.stages[0].program().segments)
    if (s.kind != ActionKind::optimizer && s.kind != ActionKind::reduce)
      launched += std::ranges::count_if(s.ops, [](Op const& op) { return op.kind != OpKind::copy_block; });
  EXPECT_NEAR(p.step_ms, static_cast<double>(launched), 0.05 * static_cast<double>(launched));
}

// Megatron-LM's fused softmax takes multiples of 4 heads x samples: with 2 heads a rank, one sample costs more launches
// than two do; and each tensor-parallel collective is a launch of its own.
TEST(Prediction, LaunchesOfAnUnfusedSoftmaxAndOfCollectivesCount) {
  SoftwareStack stack = load_stack("megatron-deepspeed");
  stack.host_us = 1000, stack.collective_host_us = 100;
  auto const host_ms = [&](char const* micro_batch) {
    Experiment const e = experiment_of({{"model", "gpt2"},
                                        {"layers", "2"},
                                        {"seq", "128"},
                                        {"tp", "6"},
                                        {"precision", "bf16"},
                                        {"micro-batch", micro_batch}});
    return issue_ms_of_all_ops(e, stack);
  };
  // 2 layers, forward and backward of attention, 4 more launches each.
  EXPECT_NEAR(host_ms("1") - host_ms("2"), 2 * 2 * 4 * 1.0, 1e-9);
  double const with = host_ms("2");
  stack.collective_host_us = 0;
  EXPECT_GT(with, host_ms("2") + 2 * 4 * 0.1 - 1e-9);
}

// Gradients in bf16 are cast and added by copies of ours, which no stack launches one by one.
TEST(Prediction, GradientsInTwoBytesLaunchNothingMore) {
  SoftwareStack stack = load_stack("torch-eager");
  stack.host_us = 1000;
  auto const host_ms = [&](char const* dtype) {
    return issue_ms_of_all_ops(experiment_of({{"model", "gpt2"},
                                              {"layers", "2"},
                                              {"seq", "128"},
                                              {"dp", "2"},
                                              {"zero", "3"},
                                              {"precision", "bf16"},
                                              {"gradient-dtype", dtype}}),
                               stack);
  };
  EXPECT_NEAR(host_ms("bf16"), host_ms("fp32"), 1e-9);
}

// A collective cut into n pieces with its product ends when the longer is over and a piece of the shorter.
TEST(Prediction, ACollectiveInPiecesRunsBesideItsProduct) {
  Experiment const e = experiment_of({{"model", "megatron-22b"},
                                      {"layers", "1"},
                                      {"seq", "2048"},
                                      {"tp", "8"},
                                      {"sequence-parallel", "true"},
                                      {"precision", "bf16"},
                                      {"scope", "layer"}});
  StepProgram const program = lower(e, 0);
  SoftwareStack stack = load_stack("te-2025");
  stack.tp_pieces = 1;
  CostModel const apart(load_system("h100-sxm"), stack);
  stack.tp_pieces = 4;
  CostModel const pieces(load_system("h100-sxm"), stack);
  int scattered = 0;
  for (Segment const& s : program.segments)
    for (std::size_t i = 0; i < s.ops.size(); ++i) {
      Op const& op = s.ops[i];
      if (op.stream != StreamId::tp || op.kind != OpKind::reduce_scatter || s.kind != ActionKind::forward) continue;
      std::size_t before = i;
      while (s.ops[before].kind != OpKind::gemm) --before;
      double const launch = 1e-3 * (apart.system().device.launch_us + stack.gap_us);
      double const product = apart.compute_ms(program, s.ops[before], false) - launch;
      double const alone = apart.collective_ms(program, op);
      EXPECT_NEAR(product + pieces.collective_ms(program, op), std::max(product, alone) + std::min(product, alone) / 4,
                  1e-9);
      ++scattered;
    }
  EXPECT_EQ(scattered, 2);
}

// What a long run sustains of the measured rate is the device's; our own kernels are measured in steps.
TEST(Prediction, ProductsRunAtTheSustainedRate) {
  Experiment const e = experiment_of({{"model", "gpt2"}, {"layers", "1"}, {"seq", "1024"}, {"precision", "bf16"}});
  StepProgram const program = lower(e, 0);
  SystemProfile system = load_system("h100-sxm");
  auto const product_ms = [&](char const* stack, double sustained) {
    system.device.gemm.at(Dtype::bf16).sustained = sustained;
    CostModel const model(system, load_stack(stack));
    for (Segment const& s : program.segments)
      for (Op const& op : s.ops)
        if (op.kind == OpKind::gemm)
          return model.compute_ms(program, op, false) - 1e-3 * (system.device.launch_us + model.stack().gap_us);
    return 0.0;
  };
  EXPECT_NEAR(product_ms("te-2025", 0.5), 2 * product_ms("te-2025", 1), 1e-9);
  EXPECT_NEAR(product_ms("ours", 0.5), product_ms("ours", 1), 1e-12);
}

// Flash attention 2 on H100 lacks its tensor instructions; kernels that have them do not care.
TEST(Prediction, AttentionWrittenForAmpereReachesAShareElsewhere) {
  Experiment const e = experiment_of({{"model", "megatron-1.7b"}, {"layers", "1"}, {"seq", "2048"}, {"precision", "bf16"}});
  StepProgram const program = lower(e, 0);
  SystemProfile system = load_system("h100-sxm");
  auto const attention_ms = [&](char const* stack, double share) {
    system.device.warp_mma_share = share;
    CostModel const model(system, load_stack(stack));
    for (Segment const& s : program.segments)
      for (Op const& op : s.ops)
        if (op.kind == OpKind::attention_forward)
          return model.compute_ms(program, op, false) - 1e-3 * (system.device.launch_us + model.stack().gap_us);
    return 0.0;
  };
  EXPECT_NEAR(attention_ms("megatron-flash", 0.25), 4 * attention_ms("megatron-flash", 1), 1e-9);
  EXPECT_NEAR(attention_ms("te-2025", 0.25), attention_ms("te-2025", 1), 1e-12);
}

// Interleaved stages leave a slot between a message and its use, plain ones none.
TEST(Prediction, ReceivesPostedAheadHideMessagesOfInterleavedStages) {
  SystemProfile system = load_system("a100-80gb-sxm");
  system.network[0].message_efficiency = 0.01;
  auto const step_ms = [&](char const* schedule, char const* vpp, bool ahead) {
    SoftwareStack stack = load_stack("te-2025");
    stack.receives_ahead = ahead;
    Experiment const e = experiment_of({{"model", "gpt2"},
                                        {"layers", "8"},
                                        {"pp", "4"},
                                        {"vpp", vpp},
                                        {"schedule", schedule},
                                        {"global-batch", "16"},
                                        {"precision", "bf16"}});
    return predict_step(e, CostModel(system, stack)).step_ms;
  };
  EXPECT_LT(step_ms("interleaved", "2", true), 0.99 * step_ms("interleaved", "2", false));
  EXPECT_EQ(step_ms("1f1b", "1", true), step_ms("1f1b", "1", false));
}

// Inputs of linear layers are kept as fp8 casts where those run in fp8: norms' outputs and the activation's, a byte
// each.
TEST(Memory, Fp8LayersKeepTheirInputsInOneByte) {
  Experiment const e = experiment_of(
      {{"model", "llama3.1-8b"}, {"layers", "4"}, {"seq", "2048"}, {"scope", "layer"}, {"precision", "bf16"}});
  SoftwareStack const bf16 = load_stack("te-2025");
  SoftwareStack fp8 = bf16;
  fp8.linear_precision = Dtype::fp8;
  SystemProfile const system = load_system("h100-sxm");
  auto const kept = [&](SoftwareStack const& stack) {
    return memory_fit({with_stack(lower(e, 0), stack)}, system, stack).activation_bytes;
  };
  EXPECT_NEAR(kept(bf16) - kept(fp8), 4 * 2048.0 * (4096 + 4096 + 14336), 1);
}

/// Fixed times, with tensor- and data-parallel communication on one link or on two.
class OnLinks final : public DurationModel {
 public:
  OnLinks(bool shared, double slowdown) : shared_(shared), slowdown_(slowdown) {}
  double compute_ms(StepProgram const&, Op const&, bool) const final { return 1; }
  double collective_ms(StepProgram const&, Op const& op) const final { return op.stream == StreamId::dp ? 40 : 1; }
  double transfer_ms(StepProgram const&, Op const&) const final { return 0; }
  LinkUse link_use(StepProgram const& p, Op const& op) const final {
    return {shared_ || op.stream != StreamId::dp ? 0 : 1, collective_ms(p, op)};
  }
  double slowdown_beside_communication() const final { return slowdown_; }

 private:
  bool shared_;
  double slowdown_;
};

TEST(Prediction, AxesThatShareALinkSlowEachOtherAndCommunicationSlowsCompute) {
  Experiment const e = experiment_of({{"model", "gpt2"},
                                      {"layers", "4"},
                                      {"seq", "128"},
                                      {"tp", "2"},
                                      {"dp", "2"},
                                      {"bucket-mb", "1"},
                                      {"global-batch", "2"}});
  std::vector<StepProgram> const programs{lower(e, 0)};
  auto const play = [&](bool shared, double slowdown) { return simulate(programs, OnLinks(shared, slowdown)); };
  double const apart = play(false, 0).step_ms;
  EXPECT_GT(play(true, 0).step_ms, apart);
  auto const slowed = play(false, 0.5);
  EXPECT_GT(slowed.stages[0].compute_ms, play(false, 0).stages[0].compute_ms);
  EXPECT_LE(slowed.stages[0].compute_ms, 1.5 * play(false, 0).stages[0].compute_ms);
}

/// Compute of 1 ms an op, 40 ms a gradient bucket, on processors that do both.
class OnOneProcessor final : public DurationModel {
 public:
  explicit OnOneProcessor(double stall) : stall_(stall) {}
  double compute_ms(StepProgram const&, Op const&, bool) const final { return 1; }
  double collective_ms(StepProgram const&, Op const&) const final { return 40; }
  double transfer_ms(StepProgram const&, Op const&) const final { return 0; }
  double stall_beside_compute() const final { return stall_; }

 private:
  double stall_;
};

// Work of one processor adds up, however it is interleaved; what stalls in part is between that and perfect overlap.
TEST(Prediction, CommunicationThatWaitsForTheProcessorAddsUpWithCompute) {
  Experiment const e =
      experiment_of({{"model", "gpt2"}, {"layers", "4"}, {"seq", "128"}, {"dp", "2"}, {"bucket-mb", "40"}});
  std::vector<StepProgram> const programs{lower(e, 0)};
  auto const free = simulate(programs, OnOneProcessor(0)), half = simulate(programs, OnOneProcessor(0.5)),
             serial = simulate(programs, OnOneProcessor(1));
  double const compute = free.stages[0].compute_ms, comm = free.stages[0].breakdown.comm_ms;
  EXPECT_GT(comm, 100);
  EXPECT_LT(free.step_ms, compute + comm - 20);
  EXPECT_GT(half.step_ms, free.step_ms);
  EXPECT_LT(half.step_ms, serial.step_ms);
  EXPECT_NEAR(serial.step_ms, compute + comm, 1e-6);
  EXPECT_NEAR(serial.stages[0].compute_ms, compute, 1e-9);
  EXPECT_NEAR(serial.stages[0].breakdown.exposed_comm_ms, comm, 1e-6);
}

// What steps take beyond their parts is that of the cut's own axes, and of compute alone.
TEST(Prediction, ExcessIsOfTheAxesThatAreCut) {
  SystemProfile plain = load_system("a100-80gb-sxm"), late = plain;
  late.device.excess = {0, 1, 0.5};
  CostModel const parts(plain, load_stack("ours")), whole(late, load_stack("ours"));
  for (auto const& [axis, factor] : {std::pair{"tp", 1.0}, {"dp", 2.0}, {"cp", 2.0}, {"pp", 1.5}}) {
    Experiment const e =
        experiment_of({{"model", "gpt2"}, {"layers", "4"}, {"seq", "128"}, {axis, "2"}, {"precision", "bf16"}});
    StepProgram const p = lower(e, 0);
    for (Segment const& segment : p.segments)
      for (Op const& op : segment.ops) {
        if (op.stream == StreamId::compute) {
          EXPECT_DOUBLE_EQ(whole.compute_ms(p, op, false), factor * parts.compute_ms(p, op, false)) << axis;
        } else if (op.stream < StreamId::pipeline) {
          EXPECT_EQ(whole.collective_ms(p, op), parts.collective_ms(p, op)) << axis;
        }
      }
  }
}

TEST(Prediction, AnUnknownPrecisionIsRefused) {
  SystemProfile const a100 = load_system("a100-80gb-sxm");
  EXPECT_THROW(CostModel(a100, load_stack("te-2025-fp8")), InputError);
}

}  // namespace
}  // namespace shardbench
