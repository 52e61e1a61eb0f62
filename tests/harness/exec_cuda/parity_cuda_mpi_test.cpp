// What the host's executor is held to, on the emulated GPU: CUDA streams, events, NCCL and the CUDA kernels.
#include <algorithm>

#include "tests/harness/exec_cuda/emulated_job.hpp"

namespace shardbench::test {
namespace {

class EmulatedParity : public testing::Test {
 protected:
  static void SetUpTestSuite() { job_ = std::make_unique<EmulatedJob>(); }
  static void TearDownTestSuite() { job_.reset(); }
  void TearDown() override { emulation::set_delay_seed(0); }

  static std::int64_t ranks() { return world().size(); }
  static void expect(ModelConfig const& model, Cut const& p, int steps = 1) {
    expect_parity(*job_, emulated_experiment(model, p), steps);
  }

  static std::unique_ptr<EmulatedJob> job_;
};

std::unique_ptr<EmulatedJob> EmulatedParity::job_;

ModelConfig gpt_for(Cut const& p) { return small_gpt(std::max<std::int64_t>(p.pp, 2)); }
ModelConfig llama_for(Cut const& p) { return small_llama(std::max<std::int64_t>(p.pp, 2)); }

TEST_F(EmulatedParity, EveryProductOfDataTensorAndPipelineParallelism) {
  for (Cut const& p : all_products(ranks())) {
    expect(gpt_for(p), p, 2);
    if (ranks() == 2 || p.tp == 2) expect(llama_for(p), p);
  }
}

TEST_F(EmulatedParity, FewerKeyValueHeadsThanTensorRanks) {
  expect(small_llama(2, 8, 1), cut(1, ranks(), 1));
  expect(small_llama(2, 8, 2), cut(1, ranks(), 1));
}

TEST_F(EmulatedParity, Families) {
  for (auto const make :
       {small_qwen3, small_gemma2, small_gemma3, small_nope, small_neox, small_falcon, small_latent}) {
    Cut p = cut(ranks() / 2, 2, 1);
    expect(make(2), p);
    p.sequence_parallel = true;
    expect(make(2), p);
    expect(make(2), cut(1, ranks() / 2, 2));
  }
  Experiment e = emulated_experiment(small_latent_lite(2), cut(1, ranks(), 1));
  e.precision = Dtype::bf16;
  expect_parity(*job_, e, 1);
}

TEST_F(EmulatedParity, PrefillAndDecode) {
  for (PhaseKind const phase : {PhaseKind::prefill, PhaseKind::decode})
    for (auto const make : {small_gpt, small_gemma2, small_latent})
      for (Cut p : {cut(1, ranks(), 1), cut(1, ranks() / 2, 2), cut(ranks(), 1, 1), cut(1, ranks() / 2, 1)}) {
        bool const context = p.ranks() < ranks();  // the rest of the ranks cut a prompt
        if (context && phase == PhaseKind::decode) continue;
        if (context) p.cp = 2;
        Experiment e = emulated_experiment(make(2), p);
        e.phase = phase;
        e.seq = context ? 8 : 6;
        resolve(e);
        SCOPED_TRACE(fmt::format("{}: {}", e.model.name, command_flags(e)));
        static_cast<void>(emulation::take_races());
        Runner runner(lower(e, world().rank()), job_->device(), *job_->nccl);
        ParityReport const report = check_inference(runner, e, job_->device(), world());
        EXPECT_EQ(report.problem, "");
        EXPECT_LT(report.max_rel_error, report.tolerance) << report.worst;
        EXPECT_EQ(joined(emulation::take_races()), "");
        EXPECT_EQ(joined(emulation::find_overruns()), "");
      }
}

TEST_F(EmulatedParity, GPipe) { expect(small_llama(ranks()), cut(1, 1, ranks(), ScheduleKind::gpipe)); }

TEST_F(EmulatedParity, Interleaved) {
  Cut p = cut(ranks() / 2, 1, 2, ScheduleKind::interleaved);
  p.vpp = 2;
  expect(small_gpt(4), p);
  if (ranks() < 4) return;
  p = cut(1, 1, ranks(), ScheduleKind::interleaved);
  p.vpp = 2;
  expect(small_llama(2 * ranks()), p);
}

TEST_F(EmulatedParity, SplitBackwardAndBothWays) {
  for (ScheduleKind const schedule : {ScheduleKind::zb_h1, ScheduleKind::zb_v, ScheduleKind::dualpipe}) {
    expect(small_llama(4), cut(1, ranks() / 2, 2, schedule));
    if (ranks() > 2) expect(small_gpt(2 * ranks()), cut(1, 1, ranks(), schedule));
  }
}

TEST_F(EmulatedParity, SequenceParallel) {
  for (Cut p : all_products(ranks())) {
    p.sequence_parallel = p.tp > 1;
    if (!p.sequence_parallel) continue;
    expect(gpt_for(p), p);
    expect(llama_for(p), p);
  }
}

TEST_F(EmulatedParity, Recompute) {
  for (Recompute const recompute : {Recompute::full, Recompute::selective}) {
    Cut p = cut(1, 2, ranks() / 2);
    p.recompute = recompute;
    expect(gpt_for(p), p);
    p.sequence_parallel = true;
    expect(llama_for(p), p);
  }
}

TEST_F(EmulatedParity, ShardedStates) {
  for (int const stage : {1, 2, 3}) {
    Cut p = cut(ranks(), 1, 1);
    p.zero_stage = stage;
    expect(small_llama(2), p);
    expect(small_gpt(2), p, 2);
    if (ranks() < 4) continue;
    for (Cut product : {cut(2, 2, 1), cut(2, 1, 2)}) {
      product.zero_stage = stage;
      expect(stage < 3 ? small_gpt(2) : small_llama(2), product);
    }
  }
}

TEST_F(EmulatedParity, WholeWeightsKeptAndShardsUnderSchedules) {
  Cut p = cut(ranks(), 1, 1);
  p.zero_stage = 3;
  p.zero_keep = ZeroKeep::all;
  expect(small_llama(2), p, 2);
  if (ranks() < 4) return;
  for (ScheduleKind const schedule : {ScheduleKind::zb_v, ScheduleKind::dualpipe}) {
    p = cut(2, 1, 2, schedule);
    p.zero_stage = 3;
    p.zero_keep = schedule == ScheduleKind::zb_v ? ZeroKeep::weights : ZeroKeep::none;
    expect(small_gpt(4), p);
  }
}

TEST_F(EmulatedParity, PredictionLayersAndGradientsOfTwoBytes) {
  ModelConfig model = small_latent(2);
  model.mtp_layers = 1;
  for (Cut p : {cut(1, ranks(), 1), cut(ranks() / 2, 1, 2)}) {
    p.zero_stage = p.dp > 1 ? 1 : 0;
    Experiment e = emulated_experiment(model, p);
    e.mtp = 1;
    expect_parity(*job_, e, 1);
    e.precision = e.gradient_dtype = Dtype::bf16;
    e.clip_grad = 0.1;
    expect_parity(*job_, e, 1);
  }
}

TEST_F(EmulatedParity, PartialSynchronisationClippingAndDropout) {
  Cut p = cut(ranks() / 2, 2, 1);
  p.tp_sync_fraction = 0.25;
  Experiment e = emulated_experiment(small_gpt(2), p);
  e.clip_grad = 0.1;
  e.dropout = 0.1;
  expect_parity(*job_, e, 2);
  p = cut(ranks(), 1, 1);
  p.zero_stage = 3;
  e = emulated_experiment(small_llama(2), p);
  e.clip_grad = 0.1;
  e.precision = Dtype::bf16;
  expect_parity(*job_, e, 1);
}

TEST_F(EmulatedParity, TensorOverlap) {
  for (bool const sp : {false, true}) {
    Cut p = cut(1, 2, ranks() / 2);
    p.tp_overlap = TpOverlap::chunked;
    p.sequence_parallel = sp;
    expect(gpt_for(p), p);
    expect(llama_for(p), p);
    emulation::set_delay_seed(3u + static_cast<unsigned>(world().rank()));
    expect(llama_for(p), p);
    emulation::set_delay_seed(0);
  }
}

TEST_F(EmulatedParity, ContextParallel) {
  for (CpMethod const method : {CpMethod::ring, CpMethod::all_gather, CpMethod::ulysses}) {
    ModelConfig const model = small_llama(2, 8, method == CpMethod::ulysses ? 8 : 2);
    Cut p;
    p.cp = ranks();
    p.cp_method = method;
    expect(model, p);
    p.recompute = Recompute::selective;
    expect(gpt_for(p), p);
    if (ranks() < 4) continue;
    p.cp = p.tp = 2;
    p.sequence_parallel = true;
    expect(model, p);
    p = cut(2, 1, 1);
    p.cp = 2;
    p.cp_method = method;
    p.zero_stage = 3;
    expect(model, p, 2);
  }
}

TEST_F(EmulatedParity, HybridSharding) {
  for (int const stage : {1, 3}) {
    Cut p = cut(ranks(), 1, 1);
    p.zero_stage = stage;
    p.shard_ranks = ranks() / 2;
    expect(small_llama(2), p, 2);
  }
}

TEST_F(EmulatedParity, Bfloat16) {
  for (Cut const& p : all_products(ranks())) {
    Experiment e = emulated_experiment(p.tp % 4 == 0 || p.dp % 2 == 0 ? llama_for(p) : gpt_for(p), p);
    e.precision = Dtype::bf16;
    expect_parity(*job_, e, 1);
  }
}

TEST_F(EmulatedParity, BlocksOnly) {
  for (Cut const& p : all_products(ranks())) {
    Experiment e = emulated_experiment(llama_for(p), p);
    e.scope = Scope::layer;
    expect_parity(*job_, e, 1);
  }
}

TEST_F(EmulatedParity, SeveralSamplesInAMicrobatch) {
  for (Cut const& p : all_products(ranks())) {
    Experiment e = emulated_experiment(llama_for(p), p, 8);
    e.micro_batch = 2;
    expect_parity(*job_, e, 1);
  }
}

TEST_F(EmulatedParity, StreamsThatComeLate) {
  for (unsigned const seed : {1u, 7u}) {
    emulation::set_delay_seed(seed + static_cast<unsigned>(world().rank()));
    for (Cut p : {cut(ranks(), 1, 1), cut(1, ranks(), 1), cut(1, ranks() / 2, 2)}) expect(gpt_for(p), p);
    Cut ring;
    ring.cp = ranks();
    expect(small_llama(2), ring);
    Cut p = cut(ranks(), 1, 1);
    p.zero_stage = 3;
    expect(small_llama(2), p);
    expect(small_llama(4), cut(1, ranks() / 2, 2, ScheduleKind::dualpipe));
  }
}

}  // namespace
}  // namespace shardbench::test
