// A sharded step has the loss, the gradients and the weights of the unsharded one, whatever the cut.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "harness/exec/parity.hpp"
#include "harness/program/analysis/count.hpp"
#include "harness/program/passes/lower.hpp"
#include "kernels/core/error.hpp"
#include "tests/harness/exec/expect_parity.hpp"
#include "tests/harness/exec/small_models.hpp"
#include "tests/harness/exec/world.hpp"

namespace shardbench::test {
namespace {

ModelConfig model_of(bool llama, Cut const& p) {
  std::int64_t const layers = std::max<std::int64_t>(p.pp, 4);
  return llama ? small_llama(layers) : small_gpt(layers);
}

std::vector<ScheduleKind> schedules_of(Cut const& p) {
  if (p.pp == 1) return {ScheduleKind::one_f_one_b};
  return {ScheduleKind::gpipe, ScheduleKind::one_f_one_b};
}

/// Runs `change`d experiments of every product, schedule and model; of eight ranks only some of the products.
template <class Change>
void expect_parity_of_all(Change change, bool thin_out = true) {
  for (Cut p : all_products(world().size())) {
    if (thin_out && world().size() == 8 && std::max({p.dp, p.tp, p.pp}) == 4) continue;
    for (ScheduleKind const schedule : schedules_of(p))
      for (bool const llama : {false, true}) {
        p.schedule = schedule;
        Experiment e;
        e.model = model_of(llama, p);
        e.cut = p;
        if (!change(e)) continue;
        Experiment base = small_experiment(e.model, e.cut);
        base.precision = e.precision;
        base.scope = e.scope;
        expect_parity(base);
      }
  }
}

TEST(Parity, EveryProductOfDataTensorAndPipelineParallelism) {
  expect_parity_of_all([](Experiment&) { return true; }, false);
}

TEST(Parity, SequenceParallel) {
  expect_parity_of_all([](Experiment& e) { return e.cut.sequence_parallel = e.cut.tp > 1; });
}

TEST(Parity, Recompute) {
  expect_parity_of_all([](Experiment& e) {
    e.cut.recompute = e.model.tied_embeddings ? Recompute::full : Recompute::selective;
    e.cut.sequence_parallel = e.cut.tp == 2;
    return e.cut.schedule == ScheduleKind::one_f_one_b;
  });
}

TEST(Parity, ShardedOptimizer) {
  expect_parity_of_all([](Experiment& e) {
    e.cut.zero_stage = 1;
    return e.cut.dp > 1 && e.cut.schedule == ScheduleKind::one_f_one_b;
  });
}

TEST(Parity, Bfloat16) {
  expect_parity_of_all([](Experiment& e) {
    e.precision = Dtype::bf16;
    return e.cut.schedule == ScheduleKind::one_f_one_b;
  });
}

TEST(Parity, BlocksOnly) {
  expect_parity_of_all([](Experiment& e) {
    e.scope = Scope::layer;
    return e.cut.schedule == ScheduleKind::one_f_one_b;
  });
}

TEST(Parity, OtherSchedules) {
  for (ScheduleKind const schedule :
       {ScheduleKind::interleaved, ScheduleKind::zb_h1, ScheduleKind::zb_v, ScheduleKind::dualpipe}) {
    Cut p = cut(1, world().size() / 2, 2, schedule);
    if (schedule == ScheduleKind::interleaved) p.vpp = 2;
    for (bool const sequence_parallel : {false, true}) {
      p.sequence_parallel = sequence_parallel;
      if (p.tp > 1 || !sequence_parallel) expect_parity(small_experiment(small_llama(4), p));
    }
  }
}

// Case N04: a vocabulary that tp does not divide is padded, and the padding takes no part in the loss.
TEST(Parity, N04OddVocabulary) {
  ModelConfig model = small_llama(1);
  std::int64_t const tp = world().size();
  model.vocab = tp == 2 ? 50257 : 257;
  EXPECT_NE(model.vocab % tp, 0);
  EXPECT_EQ(padded_vocab(model.vocab, tp) % (128 * tp), 0);
  EXPECT_EQ(padded_vocab(50257, 2), 50432);
  expect_parity(small_experiment(model, cut(1, tp, 1)));
}

TEST(Parity, SeveralSamplesInAMicrobatch) {
  for (Cut const& p : all_products(world().size())) {
    if (world().size() == 8 && std::max({p.dp, p.tp, p.pp}) > 2) continue;
    Experiment e = small_experiment(small_llama(8), p);
    e.global_batch = 16;
    e.micro_batch = 2;
    expect_parity(e);
  }
}

TEST(Payload, CommunicatorsCountWhatTheProgramSays) {
  for (Cut const& base : all_products(world().size()))
    for (int variant = 0; variant < 3; ++variant) {
      Cut p = base;
      p.sequence_parallel = variant == 1 && p.tp > 1;
      p.zero_stage = variant == 2 && p.dp > 1 ? 1 : 0;
      Experiment const e = small_experiment(model_of(variant == 1, p), p);
      SCOPED_TRACE(name_of(e));
      auto const device = make_host_device();
      Runner runner(lower(e, world().rank()), *device, world());
      StepCount const counted = count_step(runner.program(), Replay(runner.program()));
      runner.initialize(1);
      for (int step = 1; step <= 2; ++step) {
        runner.run_gradients();
        runner.run_optimizer(step);
        runner.synchronize();
        auto const moved = runner.traffic();
        for (std::size_t a = 0; a < axis_count; ++a)
          EXPECT_EQ(static_cast<double>(moved[a].payload_bytes), step * counted.traffic[a].payload_bytes)
              << to_string(static_cast<Axis>(a));
      }
      EXPECT_EQ(p.tp > 1, counted.traffic[Axis::tp].payload_bytes > 0);
      EXPECT_EQ(p.dp > 1, counted.traffic[Axis::dp].payload_bytes > 0);
    }
}

TEST(VerifyCollectives, ARankWithAnotherSizeIsFound) {
  Cut const p = cut(1, world().size(), 1);
  Experiment const e = small_experiment(small_gpt(1), p);
  for (bool const broken : {false, true}) {
    StepProgram program = lower(e, world().rank());
    for (Segment& segment : program.segments)
      for (Op& op : segment.ops)
        if (broken && world().rank() == 1 && op.kind == OpKind::all_reduce) --std::get<CollectiveShape>(op.shape).count;
    auto const device = make_host_device();
    RunnerOptions options;
    options.verify_collectives = true;
    Runner runner(std::move(program), *device, world(), options);
    runner.initialize(1);
    auto const run = [&] {
      runner.run_gradients();
      runner.synchronize();
    };
    if (broken)
      EXPECT_THROW(run(), Error);
    else
      EXPECT_NO_THROW(run());
  }
}

}  // namespace
}  // namespace shardbench::test
