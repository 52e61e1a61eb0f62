// Payloads of lowered programs against the formulas for traffic per rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/harness/program/programs.hpp"

namespace shardbench::test {
namespace {

Experiment layers_only(ModelConfig const& m, Cut const& p, Dtype precision = Dtype::bf16) {
  Experiment e = small_experiment(m, p);
  e.scope = Scope::layer;
  e.precision = precision;
  return e;
}

constexpr double seq = 16, hidden = 64;

TEST(Traffic, TensorParallelBlocksReduceFourTimes) {
  for (std::int64_t const tp : {2, 4, 8})
    for (Dtype const t : {Dtype::f32, Dtype::bf16}) {
      Experiment const e = layers_only(small_gpt(3), cut(1, tp, 1), t);
      StepProgram const p = lower(e, 0);
      double const one = seq * hidden * static_cast<double>(bytes_of(t));
      AxisTraffic const traffic = on(counted(p), Axis::tp);
      EXPECT_EQ(traffic.payload_bytes, 4 * one * 3 * 8);
      EXPECT_EQ(traffic.calls, 4 * 3 * 8);
      EXPECT_NEAR(traffic.wire_bytes, traffic.payload_bytes * 2 * static_cast<double>(tp - 1) / static_cast<double>(tp),
                  1e-6);
      EXPECT_EQ(payload_of(p, Axis::tp, OpKind::all_reduce), traffic.payload_bytes);
    }
}

TEST(Traffic, PartialSynchronisationMovesItsShareOfTheChannels) {
  for (double const fraction : {0.75, 0.5, 0.25, 0.3})
    for (std::int64_t const tp : {2, 8}) {
      Cut c = cut(1, tp, 1);
      c.tp_sync_fraction = fraction;
      StepProgram const p = lower(layers_only(small_llama(3), c), 0);
      double const synced = std::floor(fraction * hidden);
      // Two row-parallel outputs a block, forwards and backwards.
      EXPECT_EQ(payload_of(p, Axis::tp, OpKind::all_reduce, ".reduce"), 4 * seq * synced * 2 * 3 * 8);
      // Ranks normalise different streams, so the norms' gradients are summed; then the KV heads that ranks share.
      double const norms = 3 * 2 * hidden * 4, heads = payload_of(p, Axis::tp, OpKind::all_reduce, ".kv_replicas");
      EXPECT_EQ(payload_of(p, Axis::tp, OpKind::all_reduce), 4 * seq * synced * 2 * 3 * 8 + norms + heads);
      EXPECT_EQ(counted(p).model_flops, counted(lower(layers_only(small_llama(3), cut(1, tp, 1)), 0)).model_flops);
    }
  // With embedding and head: one all-reduce of all channels where the blocks begin, backwards.
  Cut c = cut(1, 2, 1);
  c.tp_sync_fraction = 0.5;
  StepProgram const p = lower(small_experiment(small_llama(3), c), 0);
  EXPECT_EQ(payload_of(p, Axis::tp, OpKind::all_reduce, "residual.enter"), 8 * seq * hidden * 4);
}

TEST(Traffic, SequenceParallelismScattersAndGathersTheSameBytes) {
  Cut c = cut(1, 4, 1);
  c.sequence_parallel = true;
  Experiment const e = layers_only(small_gpt(3), c);
  StepProgram const p = lower(e, 0);
  double const one = seq * hidden * 2, blocks = 3 * 8;
  // Forward: gather, scatter, gather, scatter; backward the duals; and the two inputs of the column cuts gathered
  // again.
  EXPECT_EQ(payload_of(p, Axis::tp, OpKind::reduce_scatter), 4 * one * blocks);
  EXPECT_EQ(payload_of(p, Axis::tp, OpKind::all_gather), (4 + 2) * one * blocks);
  EXPECT_EQ(payload_of(p, Axis::tp, OpKind::all_gather, ".regather"), 2 * one * blocks);
  // What remains are the gradients of the norms, which every rank applies to its own part of the sequence, once a step.
  double const vectors = 3 * 4 * hidden * 4;
  EXPECT_EQ(payload_of(p, Axis::tp, OpKind::all_reduce), vectors);
}

TEST(Traffic, DataParallelGradientsOnce) {
  for (std::int64_t const dp : {2, 4, 8}) {
    Experiment const e = small_experiment(small_gpt(3), cut(dp, 1, 1));
    StepProgram const p = lower(e, dp - 1);
    double padded = 0;
    for (Bucket const& b : p.buckets) padded += static_cast<double>(b.elements);
    EXPECT_EQ(on(counted(p), Axis::dp).payload_bytes, 4 * padded);
    double const exact = static_cast<double>(counted(p).parameters);
    EXPECT_GE(padded, exact);
    EXPECT_LT(padded, exact * 1.02) << "only alignment is added";
  }
}

TEST(Traffic, ShardedOptimizerScattersGradientsAndGathersWeights) {
  Cut c = cut(4, 1, 1);
  c.zero_stage = 1;
  Experiment e = small_experiment(small_gpt(3), c);
  e.precision = Dtype::bf16;
  StepProgram const p = lower(e, 0);
  double elements = 0;
  for (Bucket const& b : p.buckets) elements += static_cast<double>(b.elements);
  EXPECT_EQ(payload_of(p, Axis::dp, OpKind::reduce_scatter), 4 * elements);
  EXPECT_EQ(payload_of(p, Axis::dp, OpKind::all_gather), 2 * elements);
  EXPECT_EQ(payload_of(p, Axis::dp, OpKind::all_reduce), 0);
}

TEST(Traffic, PipelineSendsEachBoundaryOnceAMicrobatch) {
  for (bool const sp : {false, true}) {
    Cut c = cut(1, 2, 4);
    c.sequence_parallel = sp;
    Experiment const e = layers_only(small_llama(4), c);
    double const one = seq * hidden * 2 / (sp ? 2 : 1);
    auto const ranks = representative_ranks(e);
    for (std::size_t stage = 0; stage < 4; ++stage) {
      double const sides = stage == 0 || stage == 3 ? 1 : 2;  // an activation forwards, a gradient back
      EXPECT_EQ(on(counted(lower(e, ranks[stage])), Axis::pp).payload_bytes, sides * one * 8) << stage;
    }
  }
}

TEST(Traffic, TiedEmbeddingsAgreeOverThePipeline) {
  Experiment const e = small_experiment(small_gpt(4), cut(1, 2, 2));
  for (auto const rank : representative_ranks(e))
    EXPECT_EQ(payload_of(lower(e, rank), Axis::pp, OpKind::all_reduce, "tied_embedding"), 256.0 * 64 * 4);
}

TEST(Traffic, ReplicatedKeyValueHeadsAgreeOnceAStep) {
  Experiment const e = small_experiment(small_llama(2), cut(1, 8, 1));
  StepProgram const p = lower(e, 5);
  auto const group = std::ranges::find(p.groups, std::string("kv_replicas"), &Group::name);
  EXPECT_EQ(group->members, (std::vector<std::int64_t>{4, 5, 6, 7})) << "two KV heads over eight ranks";
  EXPECT_EQ(payload_of(p, Axis::tp, OpKind::all_reduce, ".kv_replicas"), 2.0 * (2 * 8) * 64 * 4);
}

TEST(Traffic, FullyShardedWeightsAreGatheredTwiceAndReducedEachMicrobatch) {
  Cut c = cut(4, 1, 1);
  c.zero_stage = 3;
  Experiment const e = small_experiment(small_llama(3), c);
  StepProgram const p = lower(e, 1);
  double elements = 0;
  for (Bucket const& b : p.buckets) elements += static_cast<double>(b.elements);
  double const microbatches = static_cast<double>(e.microbatches());
  EXPECT_EQ(payload_of(p, Axis::dp, OpKind::all_gather), 2 * 4 * elements * microbatches);
  EXPECT_EQ(payload_of(p, Axis::dp, OpKind::reduce_scatter), 4 * elements * microbatches);
  AxisTraffic const traffic = on(counted(p), Axis::dp);
  EXPECT_NEAR(traffic.wire_bytes, 3 * 4 * elements * microbatches * 3 / 4, 1e-6) << "3 P (n-1)/n a microbatch";
  double kept = 0;
  for (Tensor const& t : p.tensors)
    if (t.role == TensorRole::parameter &&
        p.storage_of(static_cast<TensorId>(&t - p.tensors.data())) == static_cast<TensorId>(&t - p.tensors.data()))
      kept += static_cast<double>(t.elements());
  EXPECT_EQ(kept, elements / 4);
}

TEST(Traffic, ExpertsExchangeFourTimesABlock) {
  for (std::int64_t const ep : {2, 4, 8}) {
    Experiment e;
    e.model_name = "mixtral-8x7b";
    e.layers = 2;
    e.seq = 128;
    e.cut.dp = 8;
    e.cut.ep = ep;
    e.scope = Scope::layer;
    e.precision = Dtype::bf16;
    e.global_batch = 16;
    resolve(e);
    StepProgram const p = lower(e, 3);
    double const one = 2.0 * 128 * 4096 * 2;  // top 2 of the tokens, 2 bytes
    AxisTraffic const traffic = on(counted(p), Axis::ep);
    double const counts = 8 * 4;  // rows for each expert, told ahead
    EXPECT_EQ(traffic.payload_bytes, (4 * one + counts) * 2 * 2)
        << "dispatch, combine and their backward; 2 layers, 2 microbatches";
    EXPECT_NEAR(traffic.wire_bytes, traffic.payload_bytes * static_cast<double>(ep - 1) / static_cast<double>(ep),
                1e-6);
    EXPECT_EQ(traffic.calls, 5 * 2 * 2);
    EXPECT_EQ(counted(p).parameters,
              2 * (4096 * (4096 + 2 * 1024) + 4096 * 4096 + 2 * 4096 + 8 * 4096 + 8 / ep * 3 * 4096 * 14336));
  }
}

TEST(Traffic, RingAttentionPassesKeysAndValues) {
  for (std::int64_t const cp : {2, 4}) {
    Cut c;
    c.cp = cp;
    Experiment const e = layers_only(small_llama(2), c);
    StepProgram const p = lower(e, 1);
    double const kv = 2.0 * 16 * (2 * 8) * 2;  // K and V of the whole sequence: 2 KV heads of 8, 2 bytes
    double const hops = static_cast<double>(cp - 1) / static_cast<double>(cp);
    double const layers = 2 * 8;
    // Forward K and V; backward them again, and dK and dV all the way round.
    double const ring = layers * (kv * hops + kv * hops + kv);
    double const gradients = payload_of(p, Axis::cp, OpKind::all_reduce) + payload_of(p, Axis::dp, OpKind::all_reduce);
    EXPECT_NEAR(on(counted(p), Axis::cp).payload_bytes + on(counted(p), Axis::dp).payload_bytes - gradients, ring,
                1e-6);
  }
}

TEST(Traffic, ContextAndSequenceParallelismDoNotMix) {
  // The tensor axis cuts what the context axis left: gathering over tp never opens the context cut.
  Cut c = cut(1, 2, 1);
  c.cp = 2;
  c.sequence_parallel = true;
  StepProgram const p = lower(layers_only(small_llama(2), c), 0);
  EXPECT_EQ(payload_of(p, Axis::cp, OpKind::all_gather), 0);
  EXPECT_EQ(payload_of(p, Axis::tp, OpKind::reduce_scatter), 4.0 * (seq / 2) * hidden * 2 * 2 * 8);
}

TEST(Traffic, DualPipeHoldsEveryPieceTwice) {
  Experiment const e = layers_only(small_llama(4), cut(1, 1, 4, ScheduleKind::dualpipe));
  auto const ranks = representative_ranks(e);
  double const one = seq * hidden * 2;
  for (std::size_t stage = 0; stage < 4; ++stage) {
    StepProgram const p = lower(e, ranks[stage]);
    EXPECT_EQ(p.chunks.size(), 2u);
    EXPECT_EQ(p.chunks[0].piece, static_cast<std::int32_t>(stage));
    EXPECT_EQ(p.chunks[1].piece, static_cast<std::int32_t>(3 - stage));
    double elements = 0;
    for (Bucket const& b : p.buckets) elements += static_cast<double>(b.elements);
    EXPECT_EQ(payload_of(p, Axis::pp, OpKind::all_reduce, "mirror_gradients"), 4 * elements);
    // Four microbatches in each direction; an end stage of one direction is the other end of the other.
    double const messages = stage == 0 || stage == 3 ? 2 : 4;
    EXPECT_EQ(on(counted(p), Axis::pp).payload_bytes - 4 * elements, messages * 4 * one);
  }
}

}  // namespace
}  // namespace shardbench::test
