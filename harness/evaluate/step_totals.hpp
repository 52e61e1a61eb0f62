#pragma once
#include <string>
#include <utility>
#include <vector>

#include "harness/program/analysis/count.hpp"
#include "harness/program/lane.hpp"
#include "harness/program/lowered_step.hpp"
#include "harness/report/report_row.hpp"

namespace shardbench {

/// What a step of a configuration comes to, from the programs of one rank a stage.
struct StepTotals {
  double model_flops = 0, model_flops_full = 0, hardware_flops = 0;  ///< mean over ranks
  std::int64_t parameters_held = 0;                                  ///< of the rank that holds most
  EnumArray<Axis, AxisTraffic> traffic{};                            ///< mean over ranks
  std::int64_t fullest_stage = 0;                                    ///< the one whose memory the rest tells
  std::int64_t parameter_bytes = 0, gradient_bytes = 0, optimizer_bytes = 0, buffer_bytes = 0, kv_cache_bytes = 0,
               activation_bytes = 0, peak_bytes = 0;
  std::int32_t microbatches_in_flight = 0;
  std::vector<std::pair<std::string, std::int64_t>> largest_tensors;
};

/// Counts a step; without `memory` its bytes are left out.
StepTotals total_step(LoweredStep const& step, bool memory = true);

/// The columns that follow from counting: memory, wire bytes, FLOP convention.
void set_totals(ReportRow& row, StepTotals const& totals);

/// Rates of a row whose step_ms_p50 is there: a decoded step is a token of each sample, any other a whole sequence.
void set_rates(ReportRow& row, StepTotals const& totals);
/// "209 tokens/s", or images a second of a model that takes them.
std::string rate_text(ReportRow const& row);

/// MFU and HFU against a dense peak in TFLOP/s; set_rates comes first.
void set_utilization(ReportRow& row, double peak_tflops, std::string_view source);

}  // namespace shardbench
