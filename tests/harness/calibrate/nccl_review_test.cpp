#include "harness/calibrate/nccl_review.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/calibrate/collective_fit.hpp"

namespace shardbench {
namespace {

NcclLog log_of(std::string const& name) {
  return read_nccl_log(std::string(SHARDBENCH_SOURCE_DIR) + "/tests/data/nccl_logs/" + name);
}
NcclRun run_of(std::string const& name) { return log_of(name).runs.front(); }
NcclReview review_of(std::string const& name) { return review(run_of(name)); }

// B01: busbw = algbw * factor holds for every row of the sound logs.
TEST(NcclReview, FactorsHold) {
  for (char const* name :
       {"allreduce_4xRTX4090_pcie.log", "allreduce_2node_16xH100_k8s_noise.log", "allreduce_72rank_gb200.log",
        "allreduce_1node_8xH100_nvls_indented.log", "alltoall_2node_16rank_cliff_case2.log"}) {
    NcclReview const found = review_of(name);
    EXPECT_FALSE(found.has(NcclFinding::bus_mismatch)) << name;
    EXPECT_FALSE(found.has(NcclFinding::inconsistent_row)) << name;
    EXPECT_FALSE(found.has(NcclFinding::average_differs)) << name;
  }
  EXPECT_DOUBLE_EQ(*nccl_bus_factor("all_reduce", 72), 2.0 * 71 / 72);  // B12
  EXPECT_DOUBLE_EQ(*nccl_bus_factor("all_to_all", 16), 15.0 / 16);
  EXPECT_DOUBLE_EQ(*nccl_bus_factor("send_receive", 2), 1);
  EXPECT_FALSE(nccl_bus_factor("", 8));
}

// B02: "size" is the total of a gathering collective, a rank's buffer of the others.
TEST(NcclReview, SizeIsTheTotal) {
  for (char const* name :
       {"allgather_2x2080ti_zero_rows.log", "alltoall_2node_16rank_cliff_case2.log", "broadcast_2x2080ti.log"}) {
    NcclRun const run = run_of(name);
    std::int64_t const ranks = run.collective == "broadcast" ? 1 : run.ranks;
    for (NcclRow const& row : run.rows)
      EXPECT_EQ(row.count * nccl_type_bytes(row.type) * ranks, row.size_bytes) << name;
  }
}

// B03: rows of no bytes are in the printed mean and in no other.
TEST(NcclReview, ZeroRows) {
  NcclReview const found = review_of("allgather_2x2080ti_zero_rows.log");
  EXPECT_TRUE(found.has(NcclFinding::zero_rows));
  EXPECT_NEAR(found.mean_shown, 1.6651, 0.003);
  EXPECT_NEAR(found.mean_without_zero_rows, 1.793, 0.003);
  EXPECT_EQ(found.points.front().bytes, 32);
  EXPECT_EQ(review_of("alltoall_128rank_zero_rows_fragment.log").points.size(), 1u);
}

// B05: above the link is said and kept.
TEST(NcclReview, InNetworkReductionMayBeAboveTheLink) {
  NcclReview const found = review_of("allreduce_1node_8xH100_nvls_indented.log");
  EXPECT_TRUE(found.has(NcclFinding::above_link));
  EXPECT_NEAR(found.peak_busbw, 470.73, 0.05);
  EXPECT_TRUE(found.unusable.empty());
}

// B06: jobs of one rank each are no bandwidth.
TEST(NcclReview, IndependentJobs) {
  NcclReview const split = review_of("allreduce_split_world_interleaved.log");
  EXPECT_TRUE(split.has(NcclFinding::independent_worlds));
  EXPECT_FALSE(split.has(NcclFinding::inconsistent_row));
  EXPECT_EQ(run_of("allreduce_split_world_interleaved.log").worlds, 2);
  EXPECT_EQ(split.peak_busbw, 0);
  EXPECT_FALSE(fit_run(split).refusal.empty());
  EXPECT_TRUE(review_of("duplicate_header_two_hosts_real.log").has(NcclFinding::independent_worlds));
  EXPECT_EQ(run_of("duplicate_header_two_hosts_real.log").worlds, 2);
  EXPECT_TRUE(review_of("reduce_1rank_header_shift.log").has(NcclFinding::one_rank));
}

// B07: a failed run is invalid whatever it prints; its algbw has the factor in it.
TEST(NcclReview, FailedRun) {
  NcclReview const found = review_of("oldformat_allgather_8xV100_failed_4GiB.log");
  EXPECT_TRUE(found.has(NcclFinding::wrong_result));
  EXPECT_FALSE(found.unusable.empty());
  EXPECT_TRUE(found.points.empty());
  EXPECT_TRUE(run_of("oldformat_allgather_8xV100_failed_4GiB.log").algbw_has_factor);
  EXPECT_FALSE(found.has(NcclFinding::inconsistent_row));
  EXPECT_FALSE(review_of("oldformat_allgather_2x2080ti.log").has(NcclFinding::inconsistent_row));
}

// B08: one row whose bandwidth is ten times what size over time gives; a thousand is a unit.
TEST(NcclReview, InconsistentRow) {
  NcclReview const found = review_of("doc_example_inconsistent_row.log");
  EXPECT_EQ(found.count(NcclFinding::inconsistent_row), 2);
  for (NcclSuspicion const& s : found.suspicions) EXPECT_TRUE(s.kind != NcclFinding::inconsistent_row || s.line == 6);
  EXPECT_NEAR(found.peak_busbw, 48.40, 0.02);
  NcclReview const units = review(
      parse_nccl_log("8388608 2097152 float sum -1 1000.0 8.39 12.58 0 1.000 8.39 12.58 0\n", "ms").runs.front());
  EXPECT_EQ(units.count(NcclFinding::unit_error), 1);
}

// B13: steps of bytes; ranks from the factor; the printed mean is over rows not shown.
TEST(NcclReview, Fragment) {
  NcclRun const run = run_of("allreduce_24rank_byte_step_fragment.log");
  NcclReview const found = review(run, {.link_gb_per_s = 100});
  EXPECT_EQ(run.ranks_from, RanksFrom::bus_factor);
  EXPECT_TRUE(found.has(NcclFinding::average_differs));
  EXPECT_FALSE(found.has(NcclFinding::below_link));
  EXPECT_NEAR(found.peak_busbw / *found.link_gb_per_s, 0.96, 0.01);
  EXPECT_FALSE(fit_run(found).refusal.empty());
}

// T01, T02: warm-up and two spikes are left out; 24.7 us; time falls at a change of protocol; best row and mean are
// told apart.
TEST(NcclReview, Spikes) {
  NcclReview const found = review_of("allreduce_2node_8xH100_spikes.log");
  EXPECT_EQ(found.count(NcclFinding::warm_up), 1);
  EXPECT_EQ(found.count(NcclFinding::outlier), 2);
  EXPECT_TRUE(found.has(NcclFinding::time_falls));
  EXPECT_TRUE(found.has(NcclFinding::low_average));
  EXPECT_NEAR(found.peak_busbw, 330.95, 0.1);
  EXPECT_EQ(found.peak_size, 8589934592);
  EXPECT_NEAR(fit_run(found).latency_us, 24.7, 0.4);
  for (NcclPoint const& p : found.points) EXPECT_TRUE(p.bytes != 16384 || p.time_us == 27.08);
}

// T07: two ranks on one device are no link.
TEST(NcclReview, SharedDevice) {
  NcclReview const found = review_of("allreduce_2rank_sharedgpu_tagged_rep1.log");
  EXPECT_TRUE(found.has(NcclFinding::shared_device));
  EXPECT_FALSE(fit_run(found).refusal.empty());
}

// T08: one dip, at 64 MiB, to 0.586 of the bandwidth before it.
TEST(NcclReview, Dip) {
  NcclReview const found = review_of("allreduce_16rank_p4d_dip64MiB.log");
  ASSERT_EQ(found.count(NcclFinding::dip), 1);
  for (NcclSuspicion const& s : found.suspicions)
    EXPECT_TRUE(s.kind != NcclFinding::dip ||
                s.text.find("at 64 MiB the bandwidth falls to 0.591 of that at 32 MiB") != s.text.npos)
        << s.text;
}

// F03: an all-to-all whose in-place half is wrong although the footer says OK; its out-of-place half counts.
TEST(NcclReview, WrongInPlaceOnly) {
  NcclReview const found = review_of("alltoall_64rank_oldformat_blank_redop.log");
  EXPECT_TRUE(found.has(NcclFinding::wrong_result));
  EXPECT_TRUE(found.unusable.empty());
  EXPECT_EQ(found.points.size(), 2u);
  EXPECT_EQ(found.points[0].time_us, 520935);
}

// A footer behind srun's labels: 37 values out of bounds invalidate the run.
TEST(NcclReview, LabelledFooter) {
  NcclReview const found = review_of("srun_label_FAILED_footer.log");
  EXPECT_EQ(found.unusable, "37 values out of bounds: the results are wrong");
  EXPECT_EQ(run_of("srun_label_FAILED_footer.log").printed_average, 300.1);
}

// -d all: every type has its own curve. int8 takes 82,908 us where float takes 66,327 (16 GiB).
TEST(NcclReview, TypesAreKeptApart) {
  NcclLog const log = log_of("dall_int8_and_float.log");
  ASSERT_EQ(log.runs.size(), 2u);
  EXPECT_EQ(log.runs[0].type(), "int8");
  EXPECT_EQ(log.runs[1].type(), "float");
  NcclPoint const last = review(log.runs[1]).points.back();
  EXPECT_EQ(last.bytes, 17179869184.0);
  EXPECT_DOUBLE_EQ(last.time_us, 66326.9);
  EXPECT_GT(review(log.runs[0]).points.back().time_us, 1.2 * last.time_us);
  // Twelve types were asked for; a type slower than another is no outlier.
  NcclLog const all = log_of("dall_2node_16xH200_10G_40G.log");
  ASSERT_EQ(all.runs.size(), 10u);
  for (NcclRun const& run : all.runs) {
    EXPECT_EQ(run.rows.size(), 3u) << run.type();
    EXPECT_EQ(run.ranks, 16);
    EXPECT_FALSE(review(run).has(NcclFinding::outlier)) << run.type();
    EXPECT_FALSE(run.printed_average) << "it is over all types";
  }
}

// alltoallv: every pair of ranks has its own amount, so it tells nothing of a balanced exchange.
TEST(NcclReview, UnevenAllToAll) {
  NcclReview const found = review_of("new_alltoallv_8xH100.log");
  EXPECT_TRUE(found.has(NcclFinding::uneven));
  EXPECT_FALSE(fit_run(found).refusal.empty());
  EXPECT_TRUE(run_of("new_alltoallv_8xH100.log").collective_named);
}

// Eleven wrong halves without a footer.
TEST(NcclReview, CorruptedWithoutAFooter) {
  NcclReview const found = review_of("gh200_4node_corrupted_v2.17.9.log");
  EXPECT_EQ(found.count(NcclFinding::wrong_result), 11);
}

TEST(NcclReview, CliffIsNoFit) {
  NcclReview const found = review_of("alltoall_2node_16rank_cliff_case2.log");
  EXPECT_TRUE(found.has(NcclFinding::cliff));
  EXPECT_NE(fit_run(found).refusal.find("cliff"), std::string::npos);
}

// G01: one in-place outlier lowers the printed mean.
TEST(NcclReview, OutlierOfALargeSize) {
  NcclReview const found = review(log_of("allreduce_A40_topology_fragments.log").runs[3]);
  ASSERT_EQ(found.count(NcclFinding::outlier), 1);
  EXPECT_NE(found.suspicions.back().text.size(), 0u);
  EXPECT_EQ(found.points[2].time_us, 27672);
  EXPECT_NEAR(found.mean_shown, 222.066, 0.01);
}

// Q02: PCIe rate on a machine with NVLink is not healthy.
TEST(NcclReview, BelowTheLink) {
  NcclReview const found = review_of("h200nvl_8rank_outofplace_only.log");
  ASSERT_TRUE(found.has(NcclFinding::below_link));
  EXPECT_FALSE(found.has(NcclFinding::above_link));
}

TEST(NcclReview, UnknownCollectiveIsNotFitted) {
  NcclReview const found = review_of("unknown_collective_8rank_oldformat_fragment.log");
  EXPECT_NE(fit_run(found).refusal.find("all_gather or all_to_all"), std::string::npos) << fit_run(found).refusal;
}

// The model's own times come back; outliers among them do not matter.
TEST(CollectiveFit, FindsWhatMadeTheData) {
  CollectiveFit truth;
  truth.latency_us = 20, truth.bandwidth_gb_per_s = 10, truth.knee_bytes = 4e5;
  std::vector<NcclPoint> points;
  for (double bytes = 64; bytes <= 1 << 30; bytes *= 4) points.push_back({bytes, truth.time_us(bytes)});
  points[5].time_us *= 10;
  CollectiveFit const fit = fit_collective(points);
  ASSERT_TRUE(fit.refusal.empty()) << fit.refusal;
  EXPECT_NEAR(fit.latency_us, 20, 2);  // the median of small sizes, with what little their bytes take
  EXPECT_NEAR(fit.bandwidth_gb_per_s, 10, 0.2);
  EXPECT_NEAR(fit.knee_bytes, 4e5, 1e5);
  EXPECT_NEAR(fit.half_bytes / fit.time_us(fit.half_bytes) / 1e3, fit.bandwidth_gb_per_s / 2, 1e-6);
  EXPECT_LT(fit.median_residual, 0.02);
}

TEST(CollectiveFit, RefusesWhatTheDataDoesNotCarry) {
  std::vector<NcclPoint> few{{1024, 20}, {2048, 21}, {1 << 20, 100}};
  EXPECT_FALSE(fit_collective(few).refusal.empty());
  std::vector<NcclPoint> large, narrow, flat;
  for (int i = 0; i < 6; ++i) {
    large.push_back({std::ldexp(1 << 20, i), std::ldexp(100, i)});
    narrow.push_back({1024.0 + 16 * i, 20.0 + i});
    flat.push_back({std::ldexp(64, 3 * i), 20});
  }
  EXPECT_NE(fit_collective(large).refusal.find("latency"), std::string::npos);
  EXPECT_NE(fit_collective(narrow).refusal.find("close"), std::string::npos);
  EXPECT_FALSE(fit_collective(flat).refusal.empty());
}

TEST(CollectiveFit, FitsRealCurves) {
  for (char const* name : {"allreduce_4xRTX4090_pcie.log", "broadcast_2x2080ti.log", "allgather_2x2080ti_zero_rows.log",
                           "allreduce_2node_2xV100_tcp_mixed_indent.log"}) {
    CollectiveFit const fit = fit_run(review_of(name));
    EXPECT_TRUE(fit.refusal.empty()) << name << ": " << fit.refusal;
    EXPECT_LT(fit.median_residual, 0.12) << name;
  }
}

}  // namespace
}  // namespace shardbench
