// Times of collectives on a network whose every number is another, worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "harness/simulate/network_time.hpp"

namespace shardbench {
namespace {

/// 4 devices a domain at 100 GB/s, domains at 20 GB/s a device.
std::vector<NetworkLevel> two_levels() {
  NetworkLevel inner, outer;
  inner.devices = 4, inner.bandwidth_gb_per_s = 100, inner.efficiency = 0.8, inner.exchange_efficiency = 0.6,
  inner.message_efficiency = 0.7, inner.latency_us = 2, inner.start_us = 3, inner.tree_us = 19;
  outer.bandwidth_gb_per_s = 20, outer.efficiency = 0.9, outer.exchange_efficiency = 0.5,
  outer.message_efficiency = 0.4, outer.latency_us = 11, outer.start_us = 13, outer.ramp_us = 17,
  outer.oversubscription = 2, outer.tree_us = 6, outer.tree_pair_passes = 3;
  return {inner, outer};
}

GroupLayout first(std::int64_t ranks, std::int64_t stride = 1) {
  std::vector<std::int64_t> devices;
  for (std::int64_t i = 0; i < ranks; ++i) devices.push_back(i * stride);
  return lay_out(two_levels(), devices);
}

void expect_time(NetworkTime const& t, double fixed_us, double wire_us, double ramp_us, Algorithm algorithm) {
  EXPECT_NEAR(t.wire_us, wire_us, 1e-9 * wire_us);
  EXPECT_NEAR(t.total_us, fixed_us + wire_us + ramp_us, 1e-9 * t.total_us);
  EXPECT_EQ(t.algorithm, algorithm) << to_string(t.algorithm);
}

TEST(NetworkByHand, LayoutsCountMembersOfDomains) {
  GroupLayout const inside = first(3), across = first(6), sparse = first(3, 4);
  EXPECT_EQ(inside.per_domain, (std::vector<std::int64_t>{3, 3}));
  EXPECT_EQ(inside.outer_level, 0u);
  EXPECT_EQ(across.per_domain, (std::vector<std::int64_t>{4, 6}));
  EXPECT_EQ(across.outer_level, 1u);
  EXPECT_EQ(across.ranks, 6);
  EXPECT_EQ(sparse.per_domain, (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(sparse.outer_level, 1u);
  NetworkLevel only = two_levels()[0];
  EXPECT_ANY_THROW(lay_out({only}, {0, 4}));
}

// Within a domain: 3 ranks, 100 * 0.8 = 80 GB/s, (n-1)/n of 6 MB = 4 MB in 50 us, 2 steps of 2 us after 3 us.
TEST(NetworkByHand, RingInsideADomain) {
  auto const n = two_levels();
  expect_time(collective_us(n, first(3), OpKind::all_gather, 6e6), 3 + 2 * 2, 50, 0, Algorithm::ring);
  expect_time(collective_us(n, first(3), OpKind::reduce_scatter, 6e6), 3 + 2 * 2, 50, 0, Algorithm::ring);
  expect_time(collective_us(n, first(3), OpKind::all_reduce, 6e6), 3 + 2 * 2 * 2, 100, 0, Algorithm::ring);
}

// Over 2 domains of 4: the links of 4 at 20 * 0.9 / 2 are 36 GB/s, less than the 80 inside. Once round: in each of 2
// domains 3 steps of 2 us, and 1 step of 11 us between them.
TEST(NetworkByHand, RingOverTwoLevels) {
  auto const n = two_levels();
  double const wire = 7.0 / 8 * 7.2e6 / 36e3;  // 175 us
  expect_time(collective_us(n, first(8), OpKind::all_gather, 7.2e6), 13 + 12 + 11, wire, std::sqrt(17 * wire),
              Algorithm::ring);
  expect_time(collective_us(n, first(8), OpKind::all_reduce, 7.2e6), 13 + 2 * 23, 2 * wire, std::sqrt(17 * 2 * wire),
              Algorithm::ring);
  // One hop instead of the way round: a seventh of its steps, and the buffer itself.
  expect_time(collective_us(n, first(8), OpKind::ring_shift, 7.2e6), 13 + 23 / 7.0, 200, std::sqrt(17 * 200.0),
              Algorithm::ring);
}

// One rank a domain has its own link only: 9 GB/s; 3 ranks take 2 steps of 11 us.
TEST(NetworkByHand, RingOfOneRankADomain) {
  double const wire = 2.0 / 3 * 2.7e6 / 9e3;  // 200 us
  expect_time(collective_us(two_levels(), first(3, 4), OpKind::all_gather, 2.7e6), 13 + 2 * 11, wire,
              std::sqrt(17 * wire), Algorithm::ring);
}

// Between 4 domains a tree is 2 doublings deep and carries the buffer twice over 36 GB/s; rings inside take
// 2 * 3/4 of it at 80.
TEST(NetworkByHand, TreeBetweenDomains) {
  auto n = two_levels();
  double const wire = 2 * 3.6e6 / 36e3;  // 200 us
  expect_time(collective_us(n, first(16), OpKind::all_reduce, 3.6e6), 13 + 2 * 6, wire, std::sqrt(17 * wire * 2),
              Algorithm::tree);
  // Between two domains it is as deep as one doubling and carries the buffer as often as the level says.
  n[1].tree_pair_passes = 1;
  double const once = 3.6e6 / 36e3;  // 100 us; inside 1.5 * 3.6e6 / 80e3 = 67.5
  expect_time(collective_us(n, first(8), OpKind::all_reduce, 3.6e6), 13 + 6, once, std::sqrt(17 * once),
              Algorithm::tree);
  // Slow domains set the pace: rings inside at 20 * 0.8 GB/s take 1.5 * 3.6e6 / 16e3 = 337.5 us.
  n[0].bandwidth_gb_per_s = 20, n[1].start_us = 1, n[1].tree_us = 1;
  expect_time(collective_us(n, first(8), OpKind::all_reduce, 3.6e6), 2, 337.5, std::sqrt(17 * 337.5), Algorithm::tree);
  // Only all-reduces are trees.
  EXPECT_EQ(collective_us(n, first(16), OpKind::reduce_scatter, 3.6e6).algorithm, Algorithm::ring);
}

TEST(NetworkByHand, SwitchesSumForFiveRanksAndMore) {
  auto n = two_levels();
  n[0].devices = 8, n[0].in_switch = true, n[0].in_switch_efficiency = 0.5, n[0].in_switch_start_us = 1;
  n[0].ramp_us = 4, n[0].oversubscription = 2;
  auto const group = [&](std::int64_t ranks) {
    std::vector<std::int64_t> devices;
    for (std::int64_t i = 0; i < ranks; ++i) devices.push_back(i);
    return lay_out(n, devices);
  };
  // 100 * 0.5 / 2 = 25 GB/s; the buffer passes once: 100 us.
  expect_time(collective_us(n, group(5), OpKind::all_reduce, 2.5e6), 1, 100, std::sqrt(4 * 100.0),
              Algorithm::in_switch);
  EXPECT_EQ(collective_us(n, group(4), OpKind::all_reduce, 2.5e6).algorithm, Algorithm::ring);
  EXPECT_EQ(collective_us(n, group(8), OpKind::all_gather, 2.5e6).algorithm, Algorithm::ring);
  // Inside the domains of a tree too: 16 ranks, 2 domains of 8 at 8 * 9 = 72 GB/s.
  n[1].tree_pair_passes = 1, n[1].start_us = 0;
  double const sums = 2.5e6 / 25e3, between = 2.5e6 / 72e3;
  EXPECT_GT(sums, between);
  expect_time(collective_us(n, group(16), OpKind::all_reduce, 2.5e6), 6, sums, std::sqrt(17 * sums), Algorithm::tree);
}

// 6 ranks, 4 in the first domain. Inside: 5/6 of the buffer leaves the device at 100 * 0.6; between domains what leaves
// a domain of 4, 2/6, at 20 * 0.5 / 2. A quarter of the ring's step for each other rank.
TEST(NetworkByHand, ExchangesSendWhatLeavesADomain) {
  double const inside = 6e6 * 5 / 6 / 60e3, between = 6e6 * 2 / 6 / 5e3;
  EXPECT_LT(inside, between);
  expect_time(collective_us(two_levels(), first(6), OpKind::all_to_all, 6e6), 13 + 5 * 0.25 * 11, between,
              std::sqrt(17 * between), Algorithm::exchange);
  // Within a domain: 2/3 of 6 MB at 60 GB/s and 2 quarters of 2 us.
  expect_time(collective_us(two_levels(), first(3), OpKind::all_to_all, 6e6), 3 + 2 * 0.25 * 2, 4e6 / 60e3, 0,
              Algorithm::exchange);
}

TEST(NetworkByHand, MessagesHaveAnEfficiencyOfTheirOwn) {
  auto const n = two_levels();
  expect_time(message_us(n[0], 7e6), 3, 100, 0, Algorithm::message);
  expect_time(message_us(n[1], 0.4e6), 13, 100, std::sqrt(17 * 100.0), Algorithm::message);
}

TEST(NetworkByHand, NothingMovesAlone) {
  auto const n = two_levels();
  EXPECT_EQ(collective_us(n, first(1), OpKind::all_reduce, 1e6).total_us, 0);
  EXPECT_EQ(collective_us(n, first(2), OpKind::all_reduce, 0).total_us, 0);
  EXPECT_GT(collective_us(n, first(2), OpKind::all_reduce, 1).total_us, 0);
}

TEST(NetworkByHand, WhatWasMeasuredComesFirst) {
  auto n = two_levels();
  n[0].measured = {{"all_gather", 3, {{1e3, 20}, {1e5, 80}}}, {"send", 2, {{1e3, 5}, {1e5, 7}}}};
  // Halfway between the logarithms: the geometric mean; the first is all fixed time.
  expect_time(collective_us(n, first(3), OpKind::all_gather, 1e4), 20, 20, 0, Algorithm::measured);
  EXPECT_EQ(collective_us(n, first(2), OpKind::all_gather, 1e4).algorithm, Algorithm::ring) << "of 3 ranks only";
  EXPECT_EQ(collective_us(n, first(3), OpKind::reduce_scatter, 1e4).algorithm, Algorithm::ring);
  EXPECT_EQ(collective_us(n, first(6), OpKind::all_gather, 1e4).algorithm, Algorithm::ring) << "across domains";
  expect_time(message_us(n[0], 1e5), 5, 2, 0, Algorithm::measured);
  n[1].measured = {{"all_gather", 3, {{1e3, 30}}}};
  EXPECT_EQ(collective_us(n, first(3, 4), OpKind::all_gather, 1e3).algorithm, Algorithm::measured)
      << "one rank a domain crosses one level";
}

TEST(MeasuredTimes, BetweenPointsAlongLogarithmsAndBeyondByTheLastRate) {
  MeasuredTimes const t{"send", 2, {{100, 10}, {1000, 20}, {10000, 80}}};
  EXPECT_DOUBLE_EQ(t.us(1), 10);
  EXPECT_DOUBLE_EQ(t.us(100), 10);
  EXPECT_NEAR(t.us(1000), 20, 1e-12);
  EXPECT_NEAR(t.us(std::sqrt(1e7)), 40, 1e-9);              // geometric mean of 1000 and 10000
  EXPECT_NEAR(t.us(19000), 80 + 9000 * 60 / 9000.0, 1e-9);  // 60 us more for each 9000 more
  EXPECT_DOUBLE_EQ((MeasuredTimes{"send", 2, {{100, 10}}}).us(300), 30);
  EXPECT_DOUBLE_EQ((MeasuredTimes{"send", 2, {{100, 10}, {200, 8}}}).us(400), 16) << "a fall is no rate";
}

}  // namespace
}  // namespace shardbench
