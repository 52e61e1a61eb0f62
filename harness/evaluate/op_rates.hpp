#pragma once
#include "harness/program/step_program.hpp"
#include "harness/report/report_row.hpp"

namespace shardbench {

/// Ranks of the group that a label's communication runs in; 0 for compute.
std::int64_t group_ranks(StepProgram const& program, LabelId label);

/// The rates of a row from its bytes and FLOPs and the time of one call: TFLOP/s of compute (`ranks` 0), algbw and
/// busbw of communication.
void set_op_rates(OpsRow& row, OpKind kind, std::int64_t ranks, double call_us);

}  // namespace shardbench
