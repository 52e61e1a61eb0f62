#include "harness/program/analysis/hazards.hpp"

#include <gtest/gtest.h>

#include <random>

namespace shardbench::test {
namespace {

using Waits = std::vector<std::pair<StreamId, std::int64_t>>;

Waits waits(HazardTracker& t) {
  Waits out;
  t.finish([&](StreamId s, std::int64_t n) { out.emplace_back(s, n); });
  return out;
}

TEST(HazardTracker, WhatAnOpHadWaitedForNeedsNoSecondWait) {
  HazardTracker t(3);
  t.begin(StreamId::dp), t.write(0), waits(t);
  t.begin(StreamId::tp), t.read(0), t.write(1);
  EXPECT_EQ(waits(t), (Waits{{StreamId::dp, 1}}));
  t.begin(StreamId::compute), t.read(1);
  EXPECT_EQ(waits(t), (Waits{{StreamId::tp, 1}}));
  t.begin(StreamId::compute), t.read(0);
  EXPECT_EQ(waits(t), Waits{}) << "tp's op came after dp's";
}

TEST(HazardTracker, WhatAnOpWaitedForAfterwardsTellsNothing) {
  HazardTracker t(3);
  t.begin(StreamId::dp), t.write(0), waits(t);
  t.begin(StreamId::tp), t.write(1), waits(t);
  t.begin(StreamId::tp), t.read(0), waits(t);  // after the op that compute waits for
  t.begin(StreamId::compute), t.read(1);
  EXPECT_EQ(waits(t), (Waits{{StreamId::tp, 1}}));
  t.begin(StreamId::compute), t.read(0);
  EXPECT_EQ(waits(t), (Waits{{StreamId::dp, 1}}));
}

TEST(HazardTracker, OneOfSeveralNeededOpsVouchesForTheOthers) {
  HazardTracker t(3);
  t.begin(StreamId::dp), t.write(0), waits(t);
  t.begin(StreamId::tp), t.read(0), t.write(1), waits(t);
  t.begin(StreamId::pipeline), t.read(1), t.write(2), waits(t);
  t.begin(StreamId::compute), t.read(0), t.read(1), t.read(2);
  EXPECT_EQ(waits(t), (Waits{{StreamId::pipeline, 1}}));
}

TEST(HazardTracker, AWaitForComputeIsForAllOfIt) {
  HazardTracker t(3);
  for (int i = 0; i < 3; ++i) t.begin(StreamId::compute), t.write(i), waits(t);
  t.begin(StreamId::tp), t.read(0);
  EXPECT_EQ(waits(t), (Waits{{StreamId::compute, 3}}));
  t.begin(StreamId::tp), t.read(2);
  EXPECT_EQ(waits(t), Waits{});
}

TEST(HazardTracker, AnOpTooOldToBeRememberedCostsAWaitAndNoMore) {
  HazardTracker t(200);
  t.begin(StreamId::dp), t.write(0), waits(t);
  t.begin(StreamId::tp), t.read(0), t.write(1), waits(t);
  for (int i = 2; i < 200; ++i) {
    t.begin(StreamId::dp), t.write(i), waits(t);
    t.begin(StreamId::tp), t.read(i), waits(t);
  }
  t.begin(StreamId::cp), t.read(1);
  EXPECT_EQ(waits(t), (Waits{{StreamId::tp, 1}}));
  t.begin(StreamId::cp), t.read(0);
  EXPECT_EQ(waits(t), (Waits{{StreamId::dp, 1}}));
}

// Reads inputs and what must be over, writes outputs; communication into a temporary takes over memory, compute does
// not.
TEST(Touches, AreWhatAnOpReadsAndWrites) {
  MemoryPlan plan;
  plan.places.resize(4);
  for (int i = 0; i < 4; ++i) plan.places[i].first_instance = 10 * i;
  plan.places[1].instance_of = {0, 2};
  plan.places[3].residence = Residence::temporary;
  Op op;
  op.inputs = {{0, 0, 0}, TensorRef{}};
  op.after = {{1, 0, 0}};
  op.outputs = {{2, 0, 0}};
  std::vector<int> read, written;
  auto const touched = [&](Op const& of) {
    read.clear(), written.clear();
    return touches(
        of, plan, [&](MemoryPlan::Place const& p) { read.push_back(p.instance(1)); },
        [&](MemoryPlan::Place const& p) { written.push_back(p.instance(1)); });
  };
  op.stream = StreamId::tp;
  EXPECT_FALSE(touched(op)) << "what it writes lies where nothing else does";
  EXPECT_EQ(read, (std::vector{0, 12}));
  EXPECT_EQ(written, std::vector{20});
  op.outputs.push_back({3, 0, 0});
  EXPECT_TRUE(touched(op));
  op.stream = StreamId::compute;
  EXPECT_FALSE(touched(op)) << "compute follows compute";
  EXPECT_EQ(written, (std::vector{20, 30}));
}

/// Ops of random programs with full knowledge of what comes before each: transitive closures, kept for ever.
class Oracle {
 public:
  struct Op {
    StreamId stream;
    std::vector<bool> before;  ///< by op
    std::vector<int> reads, writes;
  };
  void add(StreamId stream, std::vector<int> reads, std::vector<int> writes, Waits const& waits) {
    Op op{stream, std::vector<bool>(ops_.size(), false), std::move(reads), std::move(writes)};
    EnumArray<StreamId, std::int64_t> seen{};
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      std::int64_t const number = ++seen[ops_[i].stream];
      bool direct = ops_[i].stream == stream;
      for (auto const& [s, n] : waits) direct = direct || (ops_[i].stream == s && number <= n);
      if (!direct) continue;
      op.before[i] = true;
      for (std::size_t j = 0; j < i; ++j) op.before[j] = op.before[j] || ops_[i].before[j];
    }
    ops_.push_back(std::move(op));
  }
  /// Whether the last op comes after each op that it conflicts with.
  bool ordered() const {
    Op const& last = ops_.back();
    auto const meet = [](std::vector<int> const& a, std::vector<int> const& b) {
      return std::ranges::any_of(a, [&](int x) { return std::ranges::find(b, x) != b.end(); });
    };
    for (std::size_t i = 0; i + 1 < ops_.size(); ++i) {
      Op const& op = ops_[i];
      bool const conflict = meet(op.writes, last.writes) || meet(op.writes, last.reads) || meet(op.reads, last.writes);
      if (conflict && !last.before[i]) return false;
    }
    return true;
  }
  void drop_last() { ops_.pop_back(); }

 private:
  std::vector<Op> ops_;
};

TEST(HazardTracker, RandomProgramsAreOrderedAndNoWaitIsLeftOver) {
  std::mt19937 random(5);
  auto const draw = [&](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
  for (int round = 0; round < 40; ++round) {
    HazardTracker t(6);
    Oracle oracle;
    for (int i = 0; i < 60; ++i) {
      auto const stream = static_cast<StreamId>(draw(4));
      std::vector<int> const reads{draw(6)}, writes{draw(6)};
      t.begin(stream), t.read(reads[0]), t.write(writes[0]);
      Waits const all = waits(t);
      for (std::size_t skip = 0; skip < all.size(); ++skip) {
        Waits fewer = all;
        fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(skip));
        oracle.add(stream, reads, writes, fewer);
        EXPECT_FALSE(oracle.ordered()) << "round " << round << " op " << i;
        oracle.drop_last();
      }
      oracle.add(stream, reads, writes, all);
      ASSERT_TRUE(oracle.ordered()) << "round " << round << " op " << i;
    }
  }
}

}  // namespace
}  // namespace shardbench::test
