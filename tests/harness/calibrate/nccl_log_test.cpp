// Every log of tests/data/nccl_logs (public nccl-tests outputs, host names replaced) reads as the people who posted it
// meant.
#include "harness/calibrate/nccl_log.hpp"

#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

std::string path_of(std::string const& name) {
  return std::string(SHARDBENCH_SOURCE_DIR) + "/tests/data/nccl_logs/" + name;
}

std::string text_of(std::string const& name) {
  std::ifstream file(path_of(name));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Expected {
  std::string file, collective;
  std::size_t runs;
  std::int64_t ranks;
  std::size_t rows;
  double average;  ///< printed, 0: none
};

class NcclLogs : public testing::TestWithParam<Expected> {};

// F01, F03, B03, B07, B12, B13, T02, T07, T08, Q02: ranks, rows and printed average of the first run of each file.
TEST_P(NcclLogs, ReadsAsItWasMeant) {
  Expected const& e = GetParam();
  NcclLog const log = read_nccl_log(path_of(e.file));
  ASSERT_EQ(log.runs.size(), e.runs);
  NcclRun const& run = log.runs.front();
  EXPECT_EQ(run.collective, e.collective);
  EXPECT_EQ(run.ranks, e.ranks);
  EXPECT_EQ(run.rows.size(), e.rows);
  EXPECT_EQ(run.printed_average.value_or(0), e.average);
  EXPECT_TRUE(run.cut_lines.empty());
}

INSTANTIATE_TEST_SUITE_P(
    All, NcclLogs,
    testing::Values(Expected{"allgather_2x2080ti_zero_rows.log", "all_gather", 1, 2, 28, 1.6651},
                    Expected{"allreduce_16rank_p4d_dip64MiB.log", "all_reduce", 1, 16, 6, 25.6327},
                    Expected{"allreduce_1node_8xH100_nvls_indented.log", "all_reduce", 1, 8, 4, 448.212},
                    Expected{"allreduce_24rank_byte_step_fragment.log", "all_reduce", 1, 24, 6, 84.8558},
                    Expected{"allreduce_2node_16xH100_k8s_noise.log", "all_reduce", 1, 16, 5, 194.675},
                    Expected{"allreduce_2node_2xV100_tcp_mixed_indent.log", "all_reduce", 1, 2, 25, 0.471788},
                    Expected{"allreduce_2node_8xH100_spikes.log", "all_reduce", 1, 8, 31, 76.0414},
                    Expected{"allreduce_2rank_sharedgpu_tagged_rep1.log", "all_reduce", 1, 2, 8, 1.57614},
                    Expected{"allreduce_2rank_sharedgpu_tagged_rep2.log", "all_reduce", 1, 2, 8, 1.58183},
                    Expected{"allreduce_2rank_sharedgpu_tagged_rep3.log", "all_reduce", 1, 2, 8, 1.58058},
                    Expected{"allreduce_4xRTX4090_pcie.log", "all_reduce", 1, 4, 21, 13.3111},
                    Expected{"allreduce_64rank_oldformat.log", "all_reduce", 1, 64, 2, 4.32178},
                    Expected{"allreduce_72rank_gb200.log", "all_reduce", 1, 72, 5, 745.53},
                    Expected{"allreduce_A40_topology_fragments.log", "all_reduce", 4, 2, 4, 47.4509},
                    Expected{"allreduce_split_world_interleaved.log", "all_reduce", 1, 1, 4, 0},
                    Expected{"alltoall_128rank_zero_rows_fragment.log", "all_to_all", 1, 128, 7, 0},
                    Expected{"alltoall_2node_16rank_cliff_case2.log", "all_to_all", 1, 16, 24, 8.84861},
                    Expected{"alltoall_64rank_oldformat_blank_redop.log", "all_to_all", 1, 64, 2, 0.507636},
                    Expected{"broadcast_2x2080ti.log", "broadcast", 1, 2, 28, 5.07658},
                    Expected{"doc_example_inconsistent_row.log", "all_reduce", 1, 8, 3, 0},
                    Expected{"duplicate_header_two_hosts_real.log", "", 1, 1, 0, 0},
                    Expected{"gb300_scaling_truncated.log", "all_reduce", 6, 64, 2, 455.539},
                    Expected{"h200nvl_8rank_outofplace_only.log", "all_reduce", 1, 8, 1, 68.6248},
                    Expected{"oldformat_allgather_2x2080ti.log", "all_gather", 1, 2, 8, 0},
                    Expected{"oldformat_allgather_8xV100_failed_4GiB.log", "all_gather", 1, 8, 1, 128.942},
                    Expected{"reduce_1rank_header_shift.log", "reduce", 1, 1, 3, 0},
                    Expected{"unknown_collective_8rank_oldformat_fragment.log", "", 1, 8, 13, 0},
                    Expected{"srun_label_FAILED_footer.log", "all_reduce", 1, 8, 6, 300.1},
                    Expected{"ompi5_prte_tag_8xH100.log", "all_reduce", 1, 8, 6, 300.1},
                    Expected{"kubectl_timestamps_8xH100.log", "all_reduce", 1, 8, 6, 300.1},
                    Expected{"new_timestamps_8xH100.log", "all_reduce", 1, 8, 6, 300.1},
                    Expected{"new_per_iteration_columns_8xH100.log", "all_reduce", 1, 8, 6, 300.1},
                    Expected{"new_alltoallv_8xH100.log", "all_to_all_v", 1, 8, 6, 200.1},
                    Expected{"sendrecv_2node_A40_sum_redop_noname.log", "send_receive", 1, 2, 5, 0},
                    Expected{"mooncake_8gpu_rows.log", "all_reduce", 1, 8, 11, 0},
                    Expected{"dall_2node_16xH200_10G_40G.log", "all_reduce", 10, 16, 3, 0},
                    Expected{"dall_int8_and_float.log", "all_reduce", 2, 16, 22, 0},
                    Expected{"gh200_4node_corrupted_v2.17.9.log", "all_reduce", 1, 16, 28, 0}),
    [](testing::TestParamInfo<Expected> const& expected) {
      std::string name = expected.param.file;
      std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
      return name;
    });

TEST(NcclLog, EveryFileOfTheFolderIsExpected) {
  std::size_t files = 0;
  for (auto const& entry : std::filesystem::directory_iterator(path_of("")))
    files += entry.path().extension() == ".log";
  EXPECT_EQ(files, 38u);
}

// F01: the same rows without the leading '#' of the comments, as launchers and forges strip them.
TEST(NcclLog, CommentsMayLackTheirHash) {
  for (auto const& entry : std::filesystem::directory_iterator(path_of(""))) {
    std::string const text = text_of(entry.path().filename().string());
    std::string bare;
    bool start = true;
    for (char const c : text) {
      if (c == '#' && start) continue;
      if (c == '\n') start = true;
      if (c != '\n' && c != ' ' && c != '>' && c != ':')
        start = c == '[' || (start && (std::isdigit(static_cast<unsigned char>(c)) || c == ',' || c == ']' ||
                                       c == '<' || c == 's' || c == 't' || c == 'd' || c == 'o' || c == 'u'));
      bare += c;
    }
    NcclLog const with = parse_nccl_log(text, "with"), without = parse_nccl_log(bare, "without");
    std::size_t with_rows = 0, without_rows = 0;
    for (NcclRun const& run : with.runs) with_rows += run.rows.size();
    for (NcclRun const& run : without.runs) without_rows += run.rows.size();
    EXPECT_EQ(with_rows, without_rows) << entry.path();
    if (with.runs.size() == 1) {
      EXPECT_EQ(without.runs.front().ranks, with.runs.front().ranks) << entry.path();
      EXPECT_EQ(without.runs.front().printed_average, with.runs.front().printed_average) << entry.path();
    }
  }
}

// F01: tags in front and in the middle of rows.
TEST(NcclLog, LaunchersTagsAreNoWords) {
  std::string const row =
      "[1,0]<stdout>:  1048576  262144  float  sum  -1  [0] 118.6  8.84  13.26  0  123.2  8.51  12.77  0\n";
  NcclRun const run = parse_nccl_log(row, "tags").runs.front();
  ASSERT_EQ(run.rows.size(), 1u);
  EXPECT_EQ(run.rows[0].in_place->busbw_gb_per_s, 12.77);
  NcclRun const prefixed = parse_nccl_log("node-3: " + row.substr(14), "srun").runs.front();
  EXPECT_EQ(prefixed.rows[0].out_of_place->time_us, 118.6);
}

// F03: times from 1e7 us on are printed with an exponent; columns that nobody knows yet are left alone.
TEST(NcclLog, ExponentsAndLaterColumns) {
  std::string const header =
      "#  size count type redop root time algbw busbw #wrong #bitdiff i_min time algbw busbw #wrong #bitdiff i_min "
      "timestamp\n";
  std::string const row =
      " 17179869184 4294967296 float sum -1 1.1e+07 1.56 2.73 0 0 1.0e+07 1.2e+07 1.43 2.51 N/A 0 1.1e+07 2026-01-02 "
      "10:11:12\n";
  NcclRow const found = parse_nccl_log(header + row, "wide").runs.front().rows.front();
  EXPECT_EQ(found.out_of_place->time_us, 1.1e7);
  EXPECT_EQ(found.in_place->time_us, 1.2e7);
  EXPECT_EQ(found.in_place->busbw_gb_per_s, 2.51);
  EXPECT_EQ(found.out_of_place->check, NcclCheck::right);
  EXPECT_EQ(found.in_place->check, NcclCheck::not_checked);
}

// F03: a blank redop leaves one word fewer; the checks of the two halves stay apart.
TEST(NcclLog, BlankOperationOfOldAllToAll) {
  NcclRun const run = read_nccl_log(path_of("alltoall_64rank_oldformat_blank_redop.log")).runs.front();
  EXPECT_EQ(run.rows[0].out_of_place->time_us, 520935);
  EXPECT_EQ(run.rows[0].out_of_place->algbw_gb_per_s, 0.52);
  EXPECT_EQ(run.rows[0].out_of_place->busbw_gb_per_s, 0.51);
  EXPECT_EQ(run.rows[0].out_of_place->check, NcclCheck::right);
  EXPECT_EQ(run.rows[0].in_place->check, NcclCheck::wrong);
  EXPECT_EQ(run.out_of_bounds, 0);
}

// F03: -J; null is "not checked", "nan" no number, sizes and averages as in the table.
TEST(NcclLog, JsonOfTheTool) {
  std::string const json =
      R"({"version":3,"args":["./build/alltoall_perf","-J","o.json"],"env":["PATH=/bin"],"nccl_version":22807,
    "config":{"nthreads":1,"devices":[{"rank":0,"hostname":"a","device":0,"device_hex":"0000:06:00","device_info":"GPU"},
                                      {"rank":1,"hostname":"a","device":1,"device_hex":"0000:07:00","device_info":"GPU"}]},
    "results":[{"size":1024,"count":128,"type":"float","redop":"none","root":"    -1",
                "out_of_place":{"time":20.5,"alg_bw":0.049951,"bus_bw":0.024976,"nwrong":0},
                "in_place":{"time":20.0,"alg_bw":"nan","bus_bw":0.0,"nwrong":null}},
               {"size":2048,"count":256,"type":"float","redop":"none","root":"    -1","out_of_place":null,
                "in_place":{"time":21.0,"alg_bw":0.097524,"bus_bw":0.048762,"nwrong":null}}],
    "out_of_bounds":{"count":0,"okay":"true"},"average_bus_bandwidth":{"bandwidth":0.0368,"okay":"unchecked"}})";
  NcclRun const run = parse_nccl_log(json, "o.json").runs.front();
  EXPECT_EQ(run.collective, "all_to_all");
  EXPECT_EQ(run.ranks, 2);
  EXPECT_EQ(run.nccl_version, "2.28.7");
  EXPECT_EQ(run.printed_average, 0.0368);
  ASSERT_EQ(run.rows.size(), 2u);
  EXPECT_EQ(run.rows[0].out_of_place->check, NcclCheck::right);
  EXPECT_FALSE(run.rows[0].in_place);
  EXPECT_FALSE(run.rows[1].out_of_place);
  EXPECT_EQ(run.rows[1].in_place->check, NcclCheck::not_checked);
}

// Q03: scopes of one file; ranks from the device list, else from size over count.
TEST(NcclLog, SectionsOfOneFile) {
  NcclLog const log = read_nccl_log(path_of("gb300_scaling_truncated.log"));
  std::vector<std::int64_t> ranks;
  std::vector<std::string> collectives;
  for (NcclRun const& run : log.runs) ranks.push_back(run.ranks), collectives.push_back(run.collective);
  EXPECT_EQ(ranks, (std::vector<std::int64_t>{64, 128, 4, 8, 64, 128}));
  EXPECT_EQ(collectives, (std::vector<std::string>{"all_reduce", "all_reduce", "all_to_all", "all_to_all", "all_to_all",
                                                   "all_to_all"}));
  EXPECT_TRUE(log.runs[0].truncated);
  EXPECT_EQ(log.runs[5].rows[1].out_of_place->busbw_gb_per_s, 47.67);
}

// G01: sections with titles; two ranks and four follow from busbw over algbw.
TEST(NcclLog, TitledSections) {
  NcclLog const log = read_nccl_log(path_of("allreduce_A40_topology_fragments.log"));
  EXPECT_EQ(log.runs[1].title, "NODE pair, 2 ranks, P2P disabled (GPU1,GPU2)");
  EXPECT_EQ(log.runs[2].ranks, 4);
  EXPECT_EQ(log.runs[3].ranks, 4);
  EXPECT_EQ(log.runs[3].ranks_from, RanksFrom::bus_factor);
}

TEST(NcclLog, WhatIsNoLogIsRefused) {
  EXPECT_THROW(parse_nccl_log("", "empty"), InputError);
  EXPECT_THROW(parse_nccl_log("hello\nworld\n", "noise"), InputError);
  EXPECT_THROW(parse_nccl_log("{\"version\":1}", "json"), InputError);
  EXPECT_THROW(read_nccl_log(path_of("not_there.log")), InputError);
}

// A file cut in the middle of a row: what is whole of it stays.
TEST(NcclLog, CutFile) {
  std::string const text = text_of("broadcast_2x2080ti.log");
  std::size_t const row = text.find("    33554432");
  NcclRun const run = parse_nccl_log(text.substr(0, row + 90), "cut").runs.front();
  EXPECT_EQ(run.cut_lines.size(), 1u);
  EXPECT_EQ(run.rows.size(), 23u);
  EXPECT_TRUE(run.rows.back().out_of_place);
  EXPECT_FALSE(run.rows.back().in_place);
}

// Two halves of one column each, and a row without any.
TEST(NcclLog, RowWithoutCells) {
  NcclRun const run = parse_nccl_log("# size count type time time algbw\n8 2 float\n", "bare").runs.front();
  EXPECT_EQ(run.cut_lines, std::vector<std::int64_t>{2});
  EXPECT_TRUE(run.rows.empty());
}

}  // namespace
}  // namespace shardbench
