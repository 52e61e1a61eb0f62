// What every public log has to say, as a reader of its text finds it: ranks and where they are told, sizes that can be
// believed, the best bandwidth among them, and everything suspicious with the line it is on.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/calibrate/nccl_review.hpp"

namespace shardbench {
namespace {

struct Told {
  std::string file;
  std::size_t run;
  std::int64_t ranks;
  RanksFrom from;
  bool named;
  std::int64_t nodes;
  std::size_t points;
  double peak_busbw;  ///< GB/s: size over time times the bus factor
  std::int64_t peak_size;
  std::string findings;  ///< with the line, where it is one row's
};

std::string text_of(NcclReview const& found) {
  std::string all;
  for (NcclSuspicion const& s : found.suspicions) {
    std::string kind(to_string(s.kind));
    std::ranges::replace(kind, ' ', '-');
    all += (all.empty() ? "" : " ") + kind + (s.line > 0 ? fmt::format(":{}", s.line) : "");
  }
  return all;
}

Told const logs[] = {
    {"allgather_2x2080ti_zero_rows.log", 0, 2, RanksFrom::rank_lines, false, 1, 26, 3.8425, 1073741824,
     "collective zero-rows average low-average"},
    {"allreduce_16rank_p4d_dip64MiB.log", 0, 16, RanksFrom::bus_factor, false, 0, 6, 42.6106, 268435456,
     "collective dip"},
    {"allreduce_1node_8xH100_nvls_indented.log", 0, 8, RanksFrom::rank_lines, false, 1, 4, 470.733, 2147483648,
     "collective above-link"},
    {"allreduce_24rank_byte_step_fragment.log", 0, 24, RanksFrom::bus_factor, false, 0, 6, 96.6863, 132120584,
     "collective average"},
    {"allreduce_2node_16xH100_k8s_noise.log", 0, 16, RanksFrom::rank_lines, false, 2, 5, 196.517, 8589934592,
     "collective"},
    {"allreduce_2node_2xV100_tcp_mixed_indent.log", 0, 2, RanksFrom::rank_lines, false, 2, 25, 0.987026, 134217728,
     "collective time-falls low-average"},
    {"allreduce_2node_8xH100_spikes.log", 0, 8, RanksFrom::rank_lines, true, 2, 31, 330.942, 8589934592,
     "warm-up:17 outlier:28 outlier:29 time-falls time-falls low-average"},
    {"allreduce_2rank_sharedgpu_tagged_rep1.log", 0, 2, RanksFrom::rank_lines, true, 1, 0, 2.31189, 134217728,
     "shared-device"},
    {"allreduce_2rank_sharedgpu_tagged_rep2.log", 0, 2, RanksFrom::rank_lines, true, 1, 0, 2.3149, 67108864,
     "shared-device"},
    {"allreduce_2rank_sharedgpu_tagged_rep3.log", 0, 2, RanksFrom::rank_lines, true, 1, 0, 2.3263, 134217728,
     "shared-device"},
    {"allreduce_4xRTX4090_pcie.log", 0, 4, RanksFrom::rank_lines, false, 1, 21, 25.3145, 1073741824, "collective"},
    {"allreduce_64rank_oldformat.log", 0, 64, RanksFrom::guess, false, 0, 2, 4.32718, 268435456,
     "rank-guess collective"},
    {"allreduce_72rank_gb200.log", 0, 72, RanksFrom::rank_lines, false, 1, 5, 846.809, 8589934592, "collective"},
    {"allreduce_A40_topology_fragments.log", 0, 2, RanksFrom::bus_factor, false, 0, 4, 47.4949, 8589934592,
     "collective"},
    {"allreduce_A40_topology_fragments.log", 1, 2, RanksFrom::bus_factor, false, 0, 4, 4.02055, 2147483648,
     "collective"},
    {"allreduce_A40_topology_fragments.log", 2, 4, RanksFrom::bus_factor, false, 0, 4, 1.43737, 1073741824,
     "collective"},
    {"allreduce_A40_topology_fragments.log", 3, 4, RanksFrom::bus_factor, false, 0, 4, 234.74, 8589934592,
     "collective outlier:31"},
    {"allreduce_split_world_interleaved.log", 0, 1, RanksFrom::bus_factor, false, 0, 0, 0, 0,
     "independent-jobs collective outlier:1 outlier:1 outlier:2 outlier:3 outlier:4"},
    {"alltoall_128rank_zero_rows_fragment.log", 0, 128, RanksFrom::sizes, false, 0, 1, 0.00164989, 512,
     "collective zero-rows unchecked"},
    {"alltoall_2node_16rank_cliff_case2.log", 0, 16, RanksFrom::rank_lines, true, 2, 24, 32.0459, 8589934592,
     "warm-up:27 outlier:42 outlier:44 time-falls cliff low-average"},
    {"alltoall_64rank_oldformat_blank_redop.log", 0, 64, RanksFrom::sizes, false, 0, 2, 0.507244, 268435456,
     "collective wrong-result:5 wrong-result:6 wrong-result"},
    {"broadcast_2x2080ti.log", 0, 2, RanksFrom::rank_lines, false, 1, 28, 11.0924, 1073741824,
     "collective outlier:27 low-average"},
    {"doc_example_inconsistent_row.log", 0, 8, RanksFrom::bus_factor, false, 0, 2, 48.3991, 67108864,
     "collective inconsistent:6 inconsistent:6"},
    {"duplicate_header_two_hosts_real.log", 0, 1, RanksFrom::rank_lines, false, 2, 0, 0, 0, "independent-jobs no-rows"},
    {"gb300_scaling_truncated.log", 0, 64, RanksFrom::rank_lines, true, 2, 2, 930.606, 17179869184,
     "average truncated low-average"},
    {"gb300_scaling_truncated.log", 1, 128, RanksFrom::rank_lines, true, 2, 2, 739.989, 17179869184,
     "average truncated low-average"},
    {"gb300_scaling_truncated.log", 2, 4, RanksFrom::rank_lines, true, 1, 2, 680.696, 17179869184, "average"},
    {"gb300_scaling_truncated.log", 3, 8, RanksFrom::sizes, true, 0, 2, 685.065, 17179869184, "average"},
    {"gb300_scaling_truncated.log", 4, 64, RanksFrom::sizes, true, 0, 2, 666.934, 17179869184, "average"},
    {"gb300_scaling_truncated.log", 5, 128, RanksFrom::sizes, true, 0, 2, 47.6655, 17179869184, "average"},
    {"h200nvl_8rank_outofplace_only.log", 0, 8, RanksFrom::rank_lines, true, 1, 1, 68.6635, 34359738368, "below-link"},
    {"oldformat_allgather_2x2080ti.log", 0, 2, RanksFrom::sizes, false, 0, 8, 21.8574, 134217728, "collective"},
    {"oldformat_allgather_8xV100_failed_4GiB.log", 0, 8, RanksFrom::sizes, false, 0, 0, 0, 0,
     "collective wrong-result:4 wrong-result:4 wrong-result"},
    {"reduce_1rank_header_shift.log", 0, 1, RanksFrom::rank_lines, false, 1, 0, 0.168421, 32,
     "one-rank collective warm-up:9 outlier:10 outlier:11"},
    {"unknown_collective_8rank_oldformat_fragment.log", 0, 8, RanksFrom::sizes, false, 0, 0, 7.32378, 268435456,
     "collective"},
};

TEST(NcclFindings, OfEveryLog) {
  for (Told const& told : logs) {
    SCOPED_TRACE(fmt::format("{} run {}", told.file, told.run));
    NcclRun const run =
        read_nccl_log(std::string(SHARDBENCH_SOURCE_DIR) + "/tests/data/nccl_logs/" + told.file).runs.at(told.run);
    NcclReview const found = review(run);
    EXPECT_EQ(run.ranks, told.ranks);
    EXPECT_EQ(run.ranks_from, told.from);
    EXPECT_EQ(run.collective_named, told.named);
    EXPECT_EQ(run.nodes(), told.nodes);
    EXPECT_EQ(found.points.size(), told.points);
    EXPECT_NEAR(found.peak_busbw, told.peak_busbw, 1e-5 * told.peak_busbw);
    EXPECT_EQ(found.peak_size, told.peak_size);
    EXPECT_EQ(text_of(found), told.findings);
  }
}

NcclReview review_of(std::string const& text, NcclLimits const& limits = {}) {
  return review(parse_nccl_log(text, "log").runs.front(), limits);
}

std::string const two_ranks =
    "# Rank 0 Group 0 Pid 1 on host device 0 [0x01] GPU\n# Rank 1 Group 0 Pid 2 on host device 1 [0x02] GPU\n";
std::string const reducing = "# Collective test starting: all_reduce_perf\n" + two_ranks;
std::string const gathering = "# Collective test starting: all_gather_perf\n" + two_ranks +
                              "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n";

// Case B02: the size of a gathering collective is count x type x ranks; 32 = 4 * 4 * 2.
TEST(NcclFindings, B02SizeIsCountTimesTypeTimesRanks) {
  EXPECT_EQ(text_of(review_of(gathering + "32 4 float none -1 10.0 0.00 0.00 0 10.0 0.00 0.00 0\n")), "");
  for (char const* row : {"32 8 float none -1 10.0 0.00 0.00 0 10.0 0.00 0.00 0\n",
                          "36 4 float none -1 10.0 0.00 0.00 0 10.0 0.00 0.00 0\n"}) {
    NcclReview const found = review_of(gathering + row);
    EXPECT_EQ(found.count(NcclFinding::inconsistent_row), 1) << row << text_of(found);
    EXPECT_TRUE(found.points.empty()) << row;
  }
  EXPECT_EQ(text_of(review_of(reducing + "32 8 float sum -1 10.0 0.00 0.00 0 10.0 0.00 0.00 0\n")), "");
  NcclReview const twice = review_of(reducing + "32 4 float sum -1 10.0 0.00 0.00 0 10.0 0.00 0.00 0\n");
  ASSERT_EQ(twice.count(NcclFinding::inconsistent_row), 1) << text_of(twice);
  EXPECT_EQ(twice.suspicions.front().text, "size 32 B, but 4 of float are 16 B");
  NcclReview const doubled = review_of(gathering + "32 8 float none -1 10.0 0.00 0.00 0 10.0 0.00 0.00 0\n");
  EXPECT_EQ(doubled.suspicions.front().text, "size 32 B, but 8 of float over 2 ranks are 64 B");
}

// Findings that no public log at hand shows.
TEST(NcclFindings, OfWhatIsRare) {
  // Two ranks listed, four by size over count.
  EXPECT_TRUE(
      review_of(gathering + "64 4 float none -1 10.0 0.01 0.00 0 10.0 0.01 0.00 0\n").has(NcclFinding::rank_conflict));
  // 8 MiB in 1000 us are 8.39 GB/s; printed as thousands of it.
  NcclReview const units =
      review_of(two_ranks + "8388608 2097152 float sum -1 1000.0 8388.61 8388.61 0 1000.0 8.39 8.39 0\n");
  EXPECT_EQ(units.count(NcclFinding::unit_error), 1) << text_of(units);
  // busbw of 2 ranks is algbw itself.
  NcclReview const bus = review_of(reducing + "8388608 2097152 float sum -1 1000.0 8.39 12.58 0 1000.0 8.39 8.39 0\n");
  EXPECT_EQ(bus.count(NcclFinding::bus_mismatch), 1) << text_of(bus);
  EXPECT_FALSE(bus.has(NcclFinding::inconsistent_row));
  // A row that ends in its middle.
  NcclReview const cut =
      review_of(gathering + "32 4 float none -1 10.0 0.00 0.00 0 10.0 0.00 0.00 0\n64 8 float none -1 10.0\n");
  EXPECT_EQ(cut.count(NcclFinding::cut_row), 1) << text_of(cut);
  EXPECT_TRUE(
      review_of(gathering + "32 4 float none -1 10.0 0.00 0.00 0 10.0 0.00 0.00 0\n...\n").has(NcclFinding::truncated));
}

// A link of 10 GB/s: 64 MiB in 6710.89 us are 10.00 GB/s; shares of it decide.
TEST(NcclFindings, AgainstALink) {
  auto const at = [](double us, double link) {
    double const rate = 67108864 / us / 1e3;
    return text_of(
        review_of(reducing + fmt::format("67108864 16777216 "
                                         "float sum -1 {0:.2f} {1:.2f} {1:.2f} 0 {0:.2f} {1:.2f} {1:.2f} 0\n",
                                         us, rate),
                  {.link_gb_per_s = link}));
  };
  EXPECT_EQ(at(6710.89, 10), "");
  EXPECT_EQ(at(6710.89, 9.85), "");            // 1.5% above
  EXPECT_EQ(at(6710.89, 9.75), "above-link");  // 2.6% above
  EXPECT_EQ(at(6710.89, 19.9), "");
  EXPECT_EQ(at(6710.89, 20.1), "below-link");
}

}  // namespace
}  // namespace shardbench
