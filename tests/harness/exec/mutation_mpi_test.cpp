// The parity check notices every derived collective that is missing or wrong.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "harness/exec/parity.hpp"
#include "harness/program/passes/lower.hpp"
#include "tests/harness/exec/small_models.hpp"
#include "tests/harness/exec/world.hpp"

namespace shardbench::test {
namespace {

enum class Mutation { drop, maximum, other_group };

/// A collective as the report names it.
using Key = std::tuple<std::string, std::string, OpKind, Axis>;

Key key_of(StepProgram const& p, Op const& op) {
  OpLabel const& label = p.labels[op.label];
  return {label.name, label.phase, label.kind, label.axis};
}

bool collective(Op const& op) { return is_communication(op.kind) && op.group >= 0; }

/// The collectives of the whole job, so that every rank plans the same mutants.
std::set<Key> collectives_of(Experiment const& e) {
  std::set<Key> keys;
  for (int rank = 0; rank < world().size(); ++rank) {
    StepProgram const p = lower(e, rank);
    for (Segment const& segment : p.segments)
      for (Op const& op : segment.ops)
        if (collective(op)) keys.insert(key_of(p, op));
  }
  return keys;
}

/// Applies the mutation on this rank. Whether any rank has an op it fits is the same everywhere.
StepProgram mutated(StepProgram p, Key const& key, Mutation mutation) {
  auto const group_named = [&](std::string const& name) {
    return static_cast<std::int32_t>(std::ranges::find(p.groups, name, &Group::name) - p.groups.begin());
  };
  for (Segment& segment : p.segments) {
    if (mutation == Mutation::drop) {
      std::erase_if(segment.ops, [&](Op const& op) { return collective(op) && key_of(p, op) == key; });
      continue;
    }
    for (Op& op : segment.ops) {
      if (!collective(op) || key_of(p, op) != key) continue;
      if (mutation == Mutation::maximum) std::get<CollectiveShape>(op.shape).reduce = PartialOp::max;
      if (mutation != Mutation::other_group) continue;
      bool const tp = op.stream == StreamId::tp;
      op.group = group_named(tp ? "dp" : "tp");
      op.stream = tp ? StreamId::dp : StreamId::tp;
    }
  }
  return p;
}

/// Reducing over the maxima of the logits by a sum shifts every exponent alike: the loss is the same, so no test can
/// tell. Nor in bf16 without the sum: the largest logits of two shards of fresh weights differ by less than a rounding.
bool changes_nothing(Experiment const& e, Key const& key, Mutation mutation) {
  return std::get<0>(key) == "loss.max" && (mutation == Mutation::maximum || e.precision != Dtype::f32);
}

void expect_all_noticed(Experiment const& e, std::vector<Mutation> const& mutations) {
  auto const device = make_host_device();
  auto const check = [&](StepProgram program) {
    Runner runner(std::move(program), *device, world());
    return check_parity(runner, e, *device, world(), 1);
  };
  StepProgram const right = lower(e, world().rank());
  ParityReport const report = check(right);
  ASSERT_TRUE(report.passed()) << report.max_rel_error << " in " << report.worst;
  auto const keys = collectives_of(e);
  EXPECT_GE(keys.size(), 2u);
  for (Key const& key : keys)
    for (Mutation const mutation : mutations) {
      if (mutation != Mutation::drop && std::get<2>(key) != OpKind::all_reduce) continue;
      if (changes_nothing(e, key, mutation)) continue;
      ParityReport const wrong = check(mutated(right, key, mutation));
      EXPECT_FALSE(wrong.passed()) << fmt::format("mutation {} of {} {} {}", static_cast<int>(mutation),
                                                  std::get<0>(key), std::get<1>(key), to_string(std::get<2>(key)));
    }
}

/// A cut for this number of ranks with a tensor axis of `tp` and a pipeline of `pp`.
Cut with(std::int64_t tp, std::int64_t pp) { return cut(world().size() / (tp * pp), tp, pp); }

TEST(Mutation, TensorAndDataParallel) {
  if (world().size() > 4) GTEST_SKIP() << "2 and 4 ranks say it all";
  Cut const p = with(2, 1);
  std::vector<Mutation> mutations{Mutation::drop, Mutation::maximum};
  if (p.dp == 2) mutations.push_back(Mutation::other_group);
  expect_all_noticed(small_experiment(small_gpt(2), p), mutations);
}

TEST(Mutation, SequenceParallel) {
  if (world().size() > 4) GTEST_SKIP() << "2 and 4 ranks say it all";
  Cut p = with(2, 1);
  p.sequence_parallel = true;
  expect_all_noticed(small_experiment(small_llama(2), p), {Mutation::drop, Mutation::maximum});
}

TEST(Mutation, TensorAndPipelineParallelWithTiedEmbeddings) {
  if (world().size() != 4) GTEST_SKIP() << "4 ranks needed";
  expect_all_noticed(small_experiment(small_gpt(2), with(2, 2)), {Mutation::drop, Mutation::maximum});
}

TEST(Mutation, ReplicatedKeyValueHeads) {
  if (world().size() != 4) GTEST_SKIP() << "4 ranks needed";
  Experiment const e = small_experiment(small_llama(2), with(4, 1));
  auto const keys = collectives_of(e);
  EXPECT_TRUE(std::ranges::any_of(keys, [](Key const& k) { return std::get<0>(k) == "attention.qkv.kv_replicas"; }));
  expect_all_noticed(e, {Mutation::drop, Mutation::maximum});
}

// AdamW hardly knows how large gradients are, so weights do not tell what norm they were clipped by; the norm does, in
// every precision.
TEST(Mutation, TheNormThatGradientsAreClippedBy) {
  if (world().size() > 4) GTEST_SKIP() << "2 and 4 ranks say it all";
  for (Dtype const precision : {Dtype::f32, Dtype::bf16}) {
    Experiment e = small_experiment(small_gpt(4), with(1, 2));
    e.clip_grad = 0.5, e.precision = precision;
    auto const device = make_host_device();
    auto const passes = [&](StepProgram program) {
      Runner runner(std::move(program), *device, world());
      return check_parity(runner, e, *device, world(), 1).passed();
    };
    StepProgram const right = lower(e, world().rank());
    EXPECT_TRUE(passes(right)) << to_string(precision);
    int dropped = 0;
    for (Key const& key : collectives_of(e)) {
      if (std::get<0>(key) != "clip.norm") continue;
      EXPECT_FALSE(passes(mutated(right, key, Mutation::drop))) << to_string(precision) << to_string(std::get<3>(key));
      ++dropped;
    }
    EXPECT_GE(dropped, 1);
  }
}

// What rounding to bf16 leaves is told from a collective that is not there.
TEST(Mutation, TensorParallelInBf16) {
  if (world().size() != 2) GTEST_SKIP() << "2 ranks say it all";
  Experiment e = small_experiment(small_llama(2), with(2, 1));
  e.precision = Dtype::bf16;
  expect_all_noticed(e, {Mutation::drop});
}

TEST(Mutation, ShardedOptimizer) {
  if (world().size() > 4) GTEST_SKIP() << "2 and 4 ranks say it all";
  Cut p = with(1, 1);
  p.zero_stage = 1;
  expect_all_noticed(small_experiment(small_gpt(2), p), {Mutation::drop, Mutation::maximum});
}

}  // namespace
}  // namespace shardbench::test
