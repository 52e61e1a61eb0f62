#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "harness/record/timeline.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

TEST(Breakdown, EmptyStepIsIdle) {
  auto const b = break_down({}, {}, 5, 8);
  EXPECT_DOUBLE_EQ(b.step_ms, 3);
  EXPECT_DOUBLE_EQ(b.idle_ms, 3);
  EXPECT_DOUBLE_EQ(b.compute_ms + b.comm_ms + b.exposed_comm_ms + b.bubble_ms, 0);
}

TEST(Breakdown, OverlapIsOfUnionsNotOfSums) {
  // Compute 200 + 60, communication 180, busy 320, so 120 hidden and 60 exposed.
  std::vector<Span> const spans{{Lane::compute, 0, -1, 1000, 1150},
                                {Lane::compute, 0, -1, 1100, 1200},
                                {Lane::compute, 0, -1, 1260, 1320},
                                {Lane::dp, 1, -1, 1080, 1260}};
  auto const b = break_down(spans, {}, 1000, 1320);
  EXPECT_DOUBLE_EQ(b.compute_ms, 260);
  EXPECT_DOUBLE_EQ(b.comm_ms, 180);
  EXPECT_DOUBLE_EQ(b.exposed_comm_ms, 60);
  EXPECT_DOUBLE_EQ(b.idle_ms, 0);
}

TEST(Breakdown, AxesInFlightShareExposedTimeEqually) {
  std::vector<Span> const spans{
      {Lane::tp, 0, -1, 0, 4}, {Lane::dp, 0, -1, 2, 6}, {Lane::dp, 0, -1, 3, 5}, {Lane::compute, 0, -1, 5, 7}};
  auto const b = break_down(spans, {}, 0, 8);
  EXPECT_DOUBLE_EQ(b.exposed_comm_ms, 5);
  EXPECT_DOUBLE_EQ(b.exposed_axis_ms[Lane::tp], 2 + 1);
  EXPECT_DOUBLE_EQ(b.exposed_axis_ms[Lane::dp], 1 + 1);
  EXPECT_DOUBLE_EQ(b.comm_axis_ms[Lane::tp], 4);
  EXPECT_DOUBLE_EQ(b.comm_axis_ms[Lane::dp], 4);
  EXPECT_DOUBLE_EQ(b.comm_ms, 6);
  EXPECT_DOUBLE_EQ(b.idle_ms, 1);
}

TEST(Breakdown, BubbleIsIdleInsideWaits) {
  std::vector<Span> const spans{{Lane::compute, 0, -1, 0, 2}, {Lane::tp, 0, -1, 4, 5}};
  std::vector<Span> const waits{{Lane::pp, 0, -1, 1, 3}, {Lane::pp, 0, -1, 2, 6}};
  auto const b = break_down(spans, waits, 0, 10);
  EXPECT_DOUBLE_EQ(b.idle_ms, 7);
  EXPECT_DOUBLE_EQ(b.bubble_ms, 2 + 1);
  EXPECT_DOUBLE_EQ(b.comm_ms, 1) << "a wait alone is no communication";
}

TEST(Breakdown, SpansAreCutToTheStep) {
  auto const b =
      break_down({{Lane::compute, 0, -1, -5, 1}, {Lane::tp, 0, -1, 3, 99}, {Lane::dp, 0, -1, 50, 60}}, {}, 0, 4);
  EXPECT_DOUBLE_EQ(b.compute_ms, 1);
  EXPECT_DOUBLE_EQ(b.exposed_comm_ms, 1);
  EXPECT_DOUBLE_EQ(b.idle_ms, 2);
}

TEST(Breakdown, RoundingOverrunsAndEmptySlicesDoNotCountTwice) {
  auto const b = break_down(
      {{Lane::compute, 0, -1, 100, 150.25}, {Lane::compute, 0, -1, 150, 160}, {Lane::compute, 0, -1, 150, 150}}, {},
      100, 160);
  EXPECT_DOUBLE_EQ(b.compute_ms, 60);
}

TEST(Breakdown, ImpossibleSpansAreErrors) {
  EXPECT_THROW(break_down({{Lane::compute, 0, -1, 2, 1}}, {}, 0, 4), Error);
  EXPECT_THROW(break_down({{Lane::compute, 0, -1, std::nan(""), 1}}, {}, 0, 4), Error);
  EXPECT_THROW(break_down({}, {}, 4, 0), Error);
}

// The step in tiny cells, each classified by looking at every span: slow and obvious.
Breakdown by_cells(std::vector<Span> const& spans, std::vector<Span> const& waits, int end) {
  Breakdown b;
  b.step_ms = end;
  for (int cell = 0; cell < end; ++cell) {
    EnumArray<Lane, bool> busy{};
    for (auto const& s : spans)
      if (s.start_ms <= cell && cell < s.end_ms) busy[s.lane] = true;
    bool waiting = false;
    for (auto const& w : waits) waiting = waiting || (w.start_ms <= cell && cell < w.end_ms);
    int axes = 0;
    for (int lane = 1; lane < static_cast<int>(Lane::size_); ++lane) axes += busy[lane];
    b.compute_ms += busy[0];
    b.comm_ms += axes > 0;
    b.exposed_comm_ms += axes > 0 && !busy[0];
    b.idle_ms += axes == 0 && !busy[0];
    b.bubble_ms += axes == 0 && !busy[0] && waiting;
    for (int lane = 1; lane < static_cast<int>(Lane::size_); ++lane) {
      b.comm_axis_ms[lane] += busy[lane];
      if (busy[lane] && !busy[0]) b.exposed_axis_ms[lane] += 1.0 / axes;
    }
  }
  return b;
}

TEST(Breakdown, AgreesWithCellByCellCountingOnRandomSpans) {
  std::mt19937 random(11);
  std::uniform_int_distribution<int> time(-5, 65), lane(0, static_cast<int>(Lane::size_) - 1), count(0, 12);
  auto const random_spans = [&] {
    std::vector<Span> spans(count(random));
    for (auto& span : spans) {
      auto const [from, to] = std::minmax({time(random), time(random)});
      span = {static_cast<Lane>(lane(random)), 0, -1, static_cast<double>(from), static_cast<double>(to)};
    }
    return spans;
  };
  for (int round = 0; round < 300; ++round) {
    auto const spans = random_spans(), waits = random_spans();
    auto const fast = break_down(spans, waits, 0, 60);
    auto const slow = by_cells(spans, waits, 60);
    EXPECT_NEAR(fast.compute_ms, slow.compute_ms, 1e-9);
    EXPECT_NEAR(fast.comm_ms, slow.comm_ms, 1e-9);
    EXPECT_NEAR(fast.exposed_comm_ms, slow.exposed_comm_ms, 1e-9);
    EXPECT_NEAR(fast.idle_ms, slow.idle_ms, 1e-9);
    EXPECT_NEAR(fast.bubble_ms, slow.bubble_ms, 1e-9);
    for (Lane const i : enum_values<Lane>()) {
      EXPECT_NEAR(fast.comm_axis_ms[i], slow.comm_axis_ms[i], 1e-9);
      EXPECT_NEAR(fast.exposed_axis_ms[i], slow.exposed_axis_ms[i], 1e-9);
    }
  }
}

TEST(Breakdown, IdentityIsExactOnRandomRealTimes) {
  std::mt19937 random(12);
  std::uniform_real_distribution<double> time(-1, 101);
  std::uniform_int_distribution<int> lane(0, static_cast<int>(Lane::size_) - 1);
  for (int round = 0; round < 100; ++round) {
    std::vector<Span> spans;
    for (int i = 0; i < 500; ++i) {
      double const from = time(random);
      spans.push_back({static_cast<Lane>(lane(random)), 0, i, from, from + time(random) / 200 + 0.01});
    }
    auto const b = break_down(spans, spans, 0.125, 99.9);
    EXPECT_NEAR(b.compute_ms + b.exposed_comm_ms + b.idle_ms, b.step_ms, 1e-9);
    EXPECT_LE(b.bubble_ms, b.idle_ms);
    double shares = 0;
    for (double share : b.exposed_axis_ms) shares += share;
    EXPECT_NEAR(shares, b.exposed_comm_ms, 1e-9);
  }
}

}  // namespace
}  // namespace shardbench
