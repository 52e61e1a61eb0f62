#include "harness/simulate/network_time.hpp"

#include <gtest/gtest.h>

#include "harness/program/analysis/count.hpp"

namespace shardbench {
namespace {

NetworkLevel level(std::int64_t devices, double gb_per_s) {
  NetworkLevel n;
  n.devices = devices;
  n.bandwidth_gb_per_s = gb_per_s;
  n.efficiency = n.message_efficiency = n.exchange_efficiency = 1;
  return n;
}

std::vector<std::int64_t> range(std::int64_t count, std::int64_t stride = 1) {
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = static_cast<std::int64_t>(i) * stride;
  return ranks;
}

double microseconds(std::vector<NetworkLevel> const& n, std::vector<std::int64_t> const& ranks, OpKind kind,
                    double bytes) {
  return collective_us(n, lay_out(n, ranks), kind, bytes).total_us;
}

TEST(NetworkTime, RingOfOneLevelIsTheClosedForm) {
  std::vector<NetworkLevel> n{level(0, 100)};
  n[0].latency_us = 2;
  double const bytes = 8e6, wire = bytes / 100e3;
  EXPECT_NEAR(microseconds(n, range(8), OpKind::all_reduce, bytes), 2 * 7 * 2.0 + 2 * 7 / 8.0 * wire, 1e-9);
  EXPECT_NEAR(microseconds(n, range(8), OpKind::all_gather, bytes), 7 * 2.0 + 7 / 8.0 * wire, 1e-9);
  EXPECT_EQ(microseconds(n, range(1), OpKind::all_reduce, bytes), 0);
}

TEST(NetworkTime, MembersOfANodeBringTheirLinksTogether) {
  std::vector<NetworkLevel> const n{level(8, 300), level(0, 25)};
  // 16 ranks on 2 nodes: 8 rails of 25 GB/s; one rank a node: its own rail.
  EXPECT_NEAR(microseconds(n, range(16), OpKind::reduce_scatter, 1e9), 15 / 16.0 * 1e6 / 200, 1e-6);
  EXPECT_NEAR(microseconds(n, range(2, 8), OpKind::reduce_scatter, 1e9), 0.5 * 1e6 / 25, 1e-6);
  EXPECT_NEAR(microseconds(n, range(8), OpKind::reduce_scatter, 1e9), 7 / 8.0 * 1e6 / 300, 1e-6);
}

// Case A05: half the bandwidth takes longer, and with nothing but bandwidth, twice as long.
TEST(NetworkTime, HalvingTheBandwidthDoublesTheTime) {
  for (OpKind const kind : {OpKind::all_reduce, OpKind::all_gather, OpKind::reduce_scatter, OpKind::all_to_all})
    for (std::int64_t const stride : {1, 8}) {
      std::vector<NetworkLevel> const fast{level(8, 300), level(0, 100)}, slow{level(8, 150), level(0, 50)};
      double const a = microseconds(fast, range(8, stride), kind, 1e8),
                   b = microseconds(slow, range(8, stride), kind, 1e8);
      EXPECT_GT(b, a);
      EXPECT_NEAR(b / a, 2, 1e-9);
    }
}

// Case A07: with a fixed cost a message, 128 KiB run at 13.1 and 1 MiB at 87.6 GB/s over the same link.
TEST(NetworkTime, AFixedCostRulesSmallMessages) {
  NetworkLevel n = level(0, 467);
  n.start_us = 9.7;
  auto const rate = [&](double bytes) { return bytes / message_us(n, bytes).total_us / 1e3; };
  EXPECT_NEAR(rate(131072), 13.1, 0.14);
  EXPECT_NEAR(rate(1048576), 87.6, 0.9);
}

// Case B04: over 2 nodes of 8, half of an all-to-all leaves the node.
TEST(NetworkTime, AllToAllSendsTheRemoteShareOverTheNetwork) {
  std::vector<NetworkLevel> const n{level(8, 1e5), level(0, 50)};
  double const us = microseconds(n, range(16), OpKind::all_to_all, 1e9);
  double const bus = 1e9 / us / 1e3 * 15 / 16;
  EXPECT_NEAR(bus / 50, 15.0 / 16 / 0.5, 1e-9);
}

TEST(NetworkTime, TreesTakeSmallAllReducesAndSwitchesLargeOnes) {
  SystemProfile const h100 = load_system("h100-sxm");
  auto const many = lay_out(h100.network, range(1024));
  EXPECT_EQ(collective_us(h100.network, many, OpKind::all_reduce, 1 << 20).algorithm, Algorithm::tree);
  auto const node = lay_out(h100.network, range(8));
  NetworkTime const large = collective_us(h100.network, node, OpKind::all_reduce, 8e9);
  EXPECT_EQ(large.algorithm, Algorithm::in_switch);
  // Case B05: the bus bandwidth of an in-switch sum may exceed the link's 450 GB/s.
  EXPECT_GT(8e9 / large.total_us / 1e3 * 1.75, 450);
}

// Measured bus bandwidths, GB/s: nccl-tests as published by NVIDIA (DeepOps, GTC24 S62129 and GTC25 S72583 slides),
// microsoft/superbenchmark and stas00/ml-engineering.
TEST(NetworkTime, AgreesWithMeasuredBusBandwidths) {
  struct Row {
    char const* system;
    std::int64_t ranks;
    OpKind kind;
    double bytes, bus_gb_per_s;
  };
  double const mib = 0x1p20, gib = 0x1p30;
  for (Row const& r :
       {Row{"a100-80gb-sxm", 8, OpKind::all_reduce, 8 * gib, 235.26},
        Row{"a100-80gb-sxm", 8, OpKind::all_gather, 8 * gib, 223.39},
        Row{"a100-80gb-sxm", 8, OpKind::reduce_scatter, 8 * gib, 231.52},
        Row{"a100-80gb-sxm", 8, OpKind::all_to_all, 8 * gib, 224.31},
        Row{"a100-80gb-sxm", 32, OpKind::all_reduce, 4 * gib, 191.05},
        Row{"h100-sxm", 8, OpKind::all_reduce, 16 * gib, 479.9},
        Row{"h200-sxm", 8, OpKind::all_gather, 16 * gib, 361.4}, Row{"h200-sxm", 4, OpKind::all_reduce, 8 * gib, 363.3},
        Row{"h200-sxm", 16, OpKind::all_reduce, 16 * gib, 485.66}, Row{"b200", 8, OpKind::all_reduce, 8 * gib, 838},
        Row{"h100-sxm", 32, OpKind::all_reduce, 4 * gib, 364.8},
        Row{"h100-sxm", 1024, OpKind::all_reduce, 4 * gib, 359.1},
        Row{"h100-sxm", 8192, OpKind::all_reduce, 8 * gib, 366},
        Row{"h100-sxm", 1024, OpKind::all_reduce, 128 * mib, 182.4},
        Row{"h100-sxm", 8192, OpKind::all_reduce, 128 * mib, 158.5}}) {
    std::vector<NetworkLevel> const n = load_system(r.system).network;
    double const measured_us = ring_wire_bytes(r.kind, r.bytes, r.ranks) / r.bus_gb_per_s / 1e3;
    EXPECT_NEAR(microseconds(n, range(r.ranks), r.kind, r.bytes) / measured_us, 1, 0.13)
        << r.system << ' ' << r.ranks << ' ' << r.bytes;
  }
}

}  // namespace
}  // namespace shardbench
