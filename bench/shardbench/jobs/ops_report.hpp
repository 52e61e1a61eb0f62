#pragma once
#include <string>
#include <vector>

#include "bench/shardbench/jobs/job.hpp"
#include "harness/exec/measure.hpp"
#include "harness/report/report_row.hpp"

namespace shardbench {

/// What a rank, or all of them, did of one op label in one step.
struct OpsSample {
  std::string label, kind, phase, axis;
  OpKind op = OpKind::gemm;
  std::int64_t group_ranks = 0;                           ///< ranks of the communication's group, 0 for compute
  std::int64_t count = 0;                                 ///< calls in one step
  double bytes = 0, flops = 0, p50_us = 0, total_ms = 0;  ///< a call's bytes, FLOPs and time; one step's time
};

/// The op labels of this rank that ran.
std::vector<OpsSample> ops_samples(StepProgram const& program, Measurement const& measurement);

/// Labels in order of first appearance over the ranks (a pipeline stage has labels that others do not): the most calls
/// on a rank, means over the ranks that have the label of what one call is, and total_ms as the mean over all ranks, so
/// that totals add up to the summary row's.
std::vector<OpsSample> merge_ranks(std::vector<std::vector<OpsSample>> const& ranks);

/// Text of samples, one a line, for the way between ranks, and back.
std::string to_lines(std::vector<OpsSample> const& samples);
std::vector<OpsSample> from_lines(std::string const& lines);

/// A row for each op label of the step, merged over ranks. Collective.
std::vector<OpsRow> ops_rows(Job& job, std::string const& run_id, StepProgram const& program,
                             Measurement const& measurement);

}  // namespace shardbench
