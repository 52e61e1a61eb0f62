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

// Underlined headings, with the escape character and where it was lost.
TEST(Topology, ColouredHeading) {
  for (char const* name : {"ansi_2gpu_nics.txt", "ansi_2gpu_nics_escape_lost.txt"}) {
    Topology const t = topology_of(name);
    EXPECT_EQ(t.gpus(), 2) << name;
    EXPECT_EQ(t.devices.size(), 4u) << name;
    EXPECT_EQ(t.links[0][1], (TopologyLink{LinkKind::nvlink, 12})) << name;
    EXPECT_TRUE(t.off_the_links().empty()) << name;
  }
}

// One GPU of eight off the switch is named; where none has a link, nothing is wrong.
TEST(Topology, GpuOffTheSwitch) {
  EXPECT_EQ(topology_of("b200_gpu2_off_nvlink_vllm16336.txt").off_the_links(), (std::vector<std::size_t>{2}));
  EXPECT_TRUE(topology_of("topo_8xH100_nv18_nics.txt").off_the_links().empty());
  EXPECT_TRUE(topology_of("rocm_smi_showtopo_108.txt").off_the_links().empty());
  EXPECT_EQ(topology_of("gb200_4gpu_sglang11208.txt").devices.size(), 10u);
  Topology const blank = topology_of("h_2gpu_blank_affinity_vllm19607.txt");
  EXPECT_EQ(blank.devices.size(), 10u);
  EXPECT_FALSE(blank.devices[0].cpus);
}

// Of rocm-smi's matrices the one of link types counts, not the weights before it.
TEST(Topology, RocmLinkTypes) {
  Topology const t = topology_of("rocm_smi_showtopo_108.txt");
  EXPECT_EQ(t.gpus(), 4);
  EXPECT_EQ(t.links[0][3].kind, LinkKind::pcie);
  EXPECT_EQ(t.links[2][2].kind, LinkKind::self);
  Topology const linked = parse_topology(
      "= Link Type between two GPUs =\n      GPU0 GPU1 GPU2\nGPU0  0 XGMI PCIE\nGPU1  XGMI 0 PCIE\nGPU2  PCIE PCIE 0\n",
      "x");
  EXPECT_EQ(linked.links[1][0].kind, LinkKind::xgmi);
  EXPECT_EQ(linked.off_the_links(), (std::vector<std::size_t>{2}));
}

TEST(Topology, NamesThatRunTogether) {
  Topology const t = parse_topology(
      "\tGPU0\tNIC8NIC9\tCPU Affinity\nGPU0\t X \tPIX\tSYS\t0-3\nNIC8\tPIX\t X \tSYS\nNIC9\tSYS\tSYS\t X \n", "x");
  ASSERT_EQ(t.devices.size(), 3u);
  EXPECT_EQ(t.devices[2].name, "NIC9");
  EXPECT_EQ(t.links[0][2].kind, LinkKind::sys);
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
