#include "harness/calibrate/topology.hpp"

#include <gtest/gtest.h>

#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

Topology topology_of(std::string const& name) {
  return read_topology(std::string(SHARDBENCH_SOURCE_DIR) + "/tests/data/topology/" + name);
}

// G01: pairs for tensor parallelism are the bonded ones.
TEST(Topology, PairsAreBonded) {
  Topology const t = topology_of("topo_8xA40.txt");
  EXPECT_EQ(t.gpus(), 8);
  EXPECT_EQ(t.links[0][1], (TopologyLink{LinkKind::nvlink, 4}));
  using Groups = std::vector<std::vector<std::size_t>>;
  EXPECT_EQ(t.groups(2), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(t.worst_link({1, 2}).kind, LinkKind::node);
  EXPECT_EQ(t.worst_link({0, 1, 6, 7}).kind, LinkKind::sys);
  for (auto const& group : t.groups(4)) EXPECT_EQ(t.worst_link(group).kind, LinkKind::node);
  EXPECT_TRUE(t.groups(3).empty());
}

// G03: cards in the matrix, N/A, one GPU alone.
TEST(Topology, CardsAndUnknowns) {
  Topology const t = topology_of("topo_8xH100_nv18_nics.txt");
  EXPECT_EQ(t.gpus(), 8);
  EXPECT_EQ(t.devices.size(), 10u);
  for (std::size_t a = 0; a < 8; ++a)
    for (std::size_t b = 0; b < 8; ++b)
      EXPECT_EQ(t.links[a][b], (a == b ? TopologyLink{LinkKind::self, 0} : TopologyLink{LinkKind::nvlink, 18}));
  EXPECT_EQ(t.links[8][0].kind, LinkKind::pix);
  for (std::size_t b = 1; b < 8; ++b) EXPECT_NE(t.links[8][b].kind, LinkKind::pix);
  EXPECT_EQ(t.devices[0].cpus, 48);
  EXPECT_EQ(t.devices[0].numa, "0");
  Topology const alone = topology_of("topo_single_gpu_NA.txt");
  EXPECT_EQ(alone.gpus(), 1);
  EXPECT_EQ(alone.devices[0].cpus, 16);
  EXPECT_TRUE(alone.devices[0].numa.empty());
  EXPECT_EQ(parse_topology("\tGPU0\tGPU1\nGPU0\t X \tN/A\nGPU1\tN/A\t X \n", "n").links[0][1].kind, LinkKind::unknown);
}

TEST(Topology, CpuLists) {
  EXPECT_EQ(count_cpus("0-23,96-119"), 48);
  EXPECT_EQ(count_cpus("7"), 1);
  EXPECT_FALSE(count_cpus("N/A"));
  EXPECT_THROW(count_cpus("0-"), InputError);
  EXPECT_THROW(count_cpus("5-2"), InputError);
}

TEST(Topology, WhatIsNoMatrixIsRefused) {
  EXPECT_THROW(parse_topology("", "empty"), InputError);
  EXPECT_THROW(parse_topology("\tGPU0\tGPU1\nGPU0\t X \tNV4\n", "short"), InputError);
  EXPECT_THROW(parse_topology("\tGPU0\tGPU1\nGPU0\t X \tNVx\nGPU1\tSYS\t X \n", "link"), InputError);
  EXPECT_THROW(parse_topology("\tGPU0\nGPU0\tSYS\n", "diagonal"), InputError);
}

}  // namespace
}  // namespace shardbench
