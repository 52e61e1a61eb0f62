#include "harness/report/columns.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

std::string cell(ReportRow const& row, std::string_view name) {
  for (auto const& column : report_columns())
    if (column.name == name) return column.cell(row);
  ADD_FAILURE() << "no column " << name;
  return {};
}

// Written out again on purpose: a column that is renamed, moved or lost breaks other people's files. New ones follow.
constexpr std::string_view expected_header =
    "schema_version,run_id,source,outcome,reason,command,"
    "model,layers,hidden,ffn_hidden,heads,kv_heads,vocab,padded_vocab,seq,micro_batch,global_batch,microbatches,"
    "precision,"
    "ranks,dp,tp,pp,vpp,cp,cp_method,ep,etp,zero_stage,shard_ranks,sequence_parallel,tp_sync_fraction,tp_overlap,"
    "schedule,"
    "recompute,strategy,rank_order,scope,phase,gradient_dtype,attention_kernel,"
    "device,device_count,ranks_per_core,comm_backend,comm_options,system,software_stack,host,clock_mhz,power_w,"
    "throttled,"
    "versions,git_commit,time_utc,"
    "step_ms_p50,step_ms_p95,step_ms_min,step_cv_pct,iterations,instrumented_step_ms,compute_ms,exposed_comm_ms,idle_"
    "ms,"
    "bubble_ms,comm_ms,comm_tp_ms,exposed_tp_ms,comm_dp_ms,exposed_dp_ms,comm_pp_ms,exposed_pp_ms,comm_cp_ms,"
    "exposed_cp_ms,comm_ep_ms,exposed_ep_ms,ttft_ms,tpot_ms,optimizer_ms,"
    "tokens_per_s,tokens_per_s_per_rank,samples_per_s,model_tflops_per_rank,hardware_tflops_per_rank,mfu_pct,hfu_pct,"
    "peak_tflops,peak_source,flops_convention,"
    "parameter_bytes,gradient_bytes,optimizer_bytes,activation_bytes,memory_peak_bytes,memory_measured_bytes,"
    "payload_bytes_tp,payload_bytes_dp,payload_bytes_pp,payload_bytes_cp,payload_bytes_ep,"
    "wire_bytes_tp,wire_bytes_dp,wire_bytes_pp,wire_bytes_cp,wire_bytes_ep,"
    "max_rel_error,predicted_step_ms,prediction_error_pct,"
    "zero_keep,dropout,clip_grad,mtp,"
    "training_days,device_hours,cost_usd,goodput_pct,pareto,run_command,megatron_flags,torchtitan_flags,"
    "image_size,classes,context,routing,router_skew,capacity,mtp_weight,seed,recompute_layers,tp_overlap_chunks,bucket_"
    "mb,"
    "attention,nccl_algo,nccl_proto,nccl_channels,share_gpu,cuda_graph,verify_collectives";

TEST(Columns, HeaderIsThePublishedOne) {
  std::string header;
  for (auto const& name : header_of(report_columns())) header += (header.empty() ? "" : ",") + name;
  EXPECT_TRUE(header == expected_header || header.starts_with(std::string(expected_header) + ",")) << header;
}

TEST(Columns, NamesAreUniqueAndEveryColumnIsDescribed) {
  std::set<std::string_view> names;
  for (auto const& column : report_columns()) {
    EXPECT_TRUE(names.insert(column.name).second) << column.name;
    EXPECT_FALSE(column.description.empty()) << column.name;
    bool const in_ms = column.name.find("_ms") != std::string_view::npos;
    EXPECT_EQ(column.unit == "ms", in_ms) << column.name;
    EXPECT_EQ(column.unit == "bytes", column.name.find("_bytes") != std::string_view::npos) << column.name;
    EXPECT_EQ(column.unit == "%", column.name.ends_with("_pct")) << column.name;
  }
}

TEST(Columns, NothingMeasuredIsEmptyNeverZero) {
  ReportRow const row;
  std::set<std::string_view> const measured{"time", "rate", "memory", "traffic", "truth", "plan"};
  for (auto const& column : report_columns()) {
    if (measured.contains(column.group)) {
      EXPECT_EQ(column.cell(row), "") << column.name;
    }
  }
}

TEST(Columns, EveryResultFieldReachesItsOwnColumn) {
  ReportRow row;
  int number = 0;
  for (auto const& column : report_columns())
    if (column.group == "traffic") ++number;
  EXPECT_EQ(number, 10);
  row.payload_bytes = {1, 2, 3, 4, 5};
  row.wire_bytes = {6, 7, 8, 9, 10};
  row.comm_axis_ms = {11, 12, 13, 14, 15};
  row.exposed_axis_ms = {16, 17, 18, 19, 20};
  int expected = 1;
  for (std::string_view prefix : {"payload_bytes_", "wire_bytes_"})
    for (std::string_view axis : {"tp", "dp", "pp", "cp", "ep"})
      EXPECT_EQ(cell(row, std::string(prefix) + std::string(axis)), std::to_string(expected++));
  for (std::string_view prefix : {"comm_", "exposed_"})
    for (std::string_view axis : {"tp", "dp", "pp", "cp", "ep"})
      EXPECT_EQ(cell(row, std::string(prefix) + std::string(axis) + "_ms"), std::to_string(expected++));
}

TEST(Columns, NumbersReadBackUnchanged) {
  ReportRow row;
  for (double value : {0.1, 1.0 / 3, 1e-300, 123456789.123456789, 0x1p52 + 0.5, 5e300, 2.5}) {
    row.step_ms_p50 = value;
    EXPECT_EQ(std::strtod(cell(row, "step_ms_p50").c_str(), nullptr), value);
  }
  row.step_ms_p50 = 2.5;
  EXPECT_EQ(cell(row, "step_ms_p50"), "2.5");
  row.parameter_bytes = 1e12;
  EXPECT_EQ(cell(row, "parameter_bytes"), "1000000000000");
  row.max_rel_error = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(cell(row, "max_rel_error"), "nan");
}

TEST(Columns, ConfigurationCells) {
  ReportRow row;
  row.experiment.model_name = "tiny";
  row.experiment.model.vocab = 1000;
  row.experiment.cut.tp = 2;
  row.experiment.cut.dp = 2;
  row.experiment.global_batch = 16;
  row.experiment.micro_batch = 2;
  EXPECT_EQ(cell(row, "padded_vocab"), "1024");
  EXPECT_EQ(cell(row, "microbatches"), "4");
  EXPECT_EQ(cell(row, "ranks"), "4");
  EXPECT_EQ(cell(row, "cp_method"), "");
  EXPECT_EQ(cell(row, "shard_ranks"), "");
  EXPECT_EQ(cell(row, "sequence_parallel"), "false");
  row.experiment.cut.zero_stage = 3;
  EXPECT_EQ(cell(row, "shard_ranks"), "2");
}

TEST(Columns, BreakdownLeavesAxesOfOneRankEmpty) {
  ReportRow row;
  row.experiment.cut.tp = 2;
  Breakdown breakdown;
  breakdown.step_ms = 10;
  breakdown.compute_ms = 6;
  breakdown.exposed_comm_ms = 3;
  breakdown.idle_ms = 1;
  breakdown.comm_axis_ms[static_cast<int>(Lane::tp)] = 4;
  breakdown.exposed_axis_ms[static_cast<int>(Lane::tp)] = 3;
  set_breakdown(row, breakdown);
  EXPECT_EQ(cell(row, "comm_tp_ms"), "4");
  EXPECT_EQ(cell(row, "exposed_tp_ms"), "3");
  EXPECT_EQ(cell(row, "comm_dp_ms"), "");
  EXPECT_EQ(cell(row, "instrumented_step_ms"), "10");
  EXPECT_THROW(row.comm_axis_ms[Lane::compute] = 1, Error);
}

TEST(Columns, PredictionErrorNeedsBoth) {
  ReportRow row;
  set_prediction(row, 11);
  EXPECT_FALSE(row.prediction_error_pct.has_value());
  row.step_ms_p50 = 10;
  set_prediction(row, 11);
  EXPECT_DOUBLE_EQ(*row.prediction_error_pct, 10);
}

TEST(Json, HasTypedValuesInColumnOrder) {
  ReportRow row;
  row.reason = "a \"quoted\"\nreason \xff";
  row.step_ms_p50 = 1.5;
  row.parameter_bytes = 0x1p52;
  row.max_rel_error = std::numeric_limits<double>::quiet_NaN();
  row.throttled = false;
  auto const parsed = nlohmann::ordered_json::parse(to_json(std::vector{row, row}));
  ASSERT_EQ(parsed.size(), 2u);
  EXPECT_EQ(parsed[1].begin().key(), "schema_version");
  EXPECT_EQ(parsed[0].size(), report_columns().size());
  EXPECT_EQ(parsed[0]["step_ms_p50"].get<double>(), 1.5);
  EXPECT_TRUE(parsed[0]["parameter_bytes"].is_number_integer());
  EXPECT_EQ(parsed[0]["throttled"], false);
  EXPECT_TRUE(parsed[0]["step_ms_min"].is_null());
  EXPECT_EQ(parsed[0]["max_rel_error"], "nan");
  EXPECT_EQ(parsed[0]["reason"].get<std::string>().substr(0, 17), "a \"quoted\"\nreason");
}

// SHARDBENCH_WRITE_COLUMNS=1 brings the file up to date instead of failing.
TEST(Documentation, ResultsReadmeHoldsExactlyTheTables) {
  std::string const path = std::string(SHARDBENCH_SOURCE_DIR) + "/results/README.md";
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  std::stringstream buffer;
  buffer << file.rdbuf();
  std::string const whole = buffer.str();
  std::string const begin = "<!-- columns: begin -->\n", end = "<!-- columns: end -->";
  auto const from = whole.find(begin), to = whole.find(end);
  ASSERT_TRUE(from != std::string::npos && to != std::string::npos && from < to);
  auto const start = from + begin.size();
  std::string const expected = column_reference_markdown() + "\n";
  if (whole.substr(start, to - start) != expected && std::getenv("SHARDBENCH_WRITE_COLUMNS"))
    std::ofstream(path) << whole.substr(0, start) << expected << whole.substr(to);
  else
    EXPECT_EQ(whole.substr(start, to - start), expected) << "run test_report with SHARDBENCH_WRITE_COLUMNS=1";
}

}  // namespace
}  // namespace shardbench
