// Payloads of cut sequences and of sharded states against closed forms.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/harness/program/programs.hpp"

namespace shardbench::test {
namespace {

Experiment layers_only(ModelConfig const& m, Cut const& p) {
  Experiment e = small_experiment(m, p);
  e.scope = Scope::layer;
  e.precision = Dtype::bf16;
  return e;
}

Cut context_cut(std::int64_t cp, CpMethod method) {
  Cut p;
  p.cp = cp;
  p.cp_method = method;
  return p;
}

constexpr double seq = 16, layers_and_microbatches = 2 * 8, bytes = 2;

TEST(ContextTraffic, GatheredKeysAreGatheredOnceAndTheirGradientsScatteredOnce) {
  for (std::int64_t const cp : {2, 4, 8}) {
    StepProgram const p = lower(layers_only(small_llama(2), context_cut(cp, CpMethod::all_gather)), cp - 1);
    double const kv = 2 * seq * (2 * 8) * bytes;
    EXPECT_EQ(payload_of(p, Axis::cp, OpKind::all_gather), layers_and_microbatches * kv);
    EXPECT_EQ(payload_of(p, Axis::cp, OpKind::reduce_scatter), layers_and_microbatches * kv);
    EXPECT_EQ(on(counted(p), Axis::cp).payload_bytes, 2 * layers_and_microbatches * kv);
  }
}

TEST(ContextTraffic, UlyssesExchangesQueriesKeysValuesAndOutputs) {
  for (std::int64_t const cp : {2, 4, 8}) {
    StepProgram const p = lower(layers_only(small_llama(2, 8, 8), context_cut(cp, CpMethod::ulysses)), cp - 1);
    double const one = seq / static_cast<double>(cp) * 64 * bytes;
    EXPECT_EQ(payload_of(p, Axis::cp, OpKind::all_to_all), layers_and_microbatches * 8 * one)
        << "q, k, v, out and back";
    EXPECT_EQ(on(counted(p), Axis::cp).payload_bytes, layers_and_microbatches * 8 * one);
  }
}

TEST(Cases, X03_UlyssesHeadsDoNotDependOnEarlierModels) {
  // 12 heads over 4 are 3 each, whatever was lowered before.
  ModelConfig twelve = small_gpt(1);
  twelve.heads = twelve.kv_heads = 12;
  twelve.hidden = 96;
  for (int time = 0; time < 2; ++time) {
    static_cast<void>(lower(layers_only(small_gpt(1), context_cut(4, CpMethod::ulysses)), 0));
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      StepProgram const p = lower(layers_only(twelve, context_cut(4, CpMethod::ulysses)), rank);
      std::int64_t found = 0;
      for_each_op(p, [&](Op const& op, shardbench::Run const&) {
        if (op.kind != OpKind::attention_forward) return;
        EXPECT_EQ(std::get<AttentionOpShape>(op.shape).heads, 3);
        EXPECT_EQ(std::get<AttentionOpShape>(op.shape).seq_q, 16);
        ++found;
      });
      EXPECT_EQ(found, 8);
    }
  }
}

TEST(ContextTraffic, EveryMethodDoesTheModelsWork) {
  for (bool const full : {false, true})
    for (CpMethod const method : {CpMethod::ring, CpMethod::all_gather, CpMethod::ulysses}) {
      auto const flops = [&](Experiment const& e, std::int64_t rank) {
        StepCount const c = counted(lower(e, rank));
        return full ? c.model_flops_full : c.model_flops;
      };
      Experiment const whole = layers_only(small_llama(2, 8, 8), cut(1, 1, 1));
      for (std::int64_t rank = 0; rank < 4; ++rank)
        EXPECT_NEAR(flops(layers_only(small_llama(2, 8, 8), context_cut(4, method)), rank) / flops(whole, 0), 0.25,
                    1e-9);
    }
}

TEST(HybridTraffic, ShardsTravelInsideTheirRanksAndSumsBetweenThem) {
  Cut c = cut(8, 1, 1);
  c.zero_stage = 3;
  c.shard_ranks = 4;
  Experiment const e = small_experiment(small_llama(2), c);
  StepProgram const p = lower(e, 5);
  double elements = 0;
  for (Bucket const& b : p.buckets) elements += static_cast<double>(b.elements);
  auto const members = [&](char const* name) {
    return std::ranges::find(p.groups, std::string(name), &Group::name)->members;
  };
  EXPECT_EQ(members("shard"), (std::vector<std::int64_t>{4, 5, 6, 7}));
  EXPECT_EQ(members("replica"), (std::vector<std::int64_t>{1, 5}));
  double const microbatches = static_cast<double>(e.microbatches());
  EXPECT_EQ(payload_of(p, Axis::dp, OpKind::all_gather), 2 * 4 * elements * microbatches);
  EXPECT_EQ(payload_of(p, Axis::dp, OpKind::reduce_scatter), 4 * elements * microbatches);
  EXPECT_EQ(payload_of(p, Axis::dp, OpKind::all_reduce), 4 * elements / 4) << "a shard, once a step";
}

}  // namespace
}  // namespace shardbench::test
