// The columns that say what came out, and the ops file.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "harness/config/cell_text.hpp"
#include "harness/report/column_groups.hpp"

namespace shardbench {
namespace {

using Row = ReportRow;
using cell_text::text;

/// An axis that has columns of its own, in their order.
struct AxisWords {
  Lane lane;
  std::string_view kind;  ///< of parallelism
};
constexpr std::array axes{AxisWords{Lane::tp, "tensor"}, AxisWords{Lane::dp, "data"}, AxisWords{Lane::pp, "pipeline"},
                          AxisWords{Lane::cp, "context"}, AxisWords{Lane::ep, "expert"}};

/// A column for the value that `member` has of an axis.
Column<Row> of_axis(AxisWords axis, std::string name, std::string unit, PerAxis Row::*member, std::string description) {
  return {"", std::move(name), std::move(unit), CellKind::number, std::move(description), [=](Row const& row) {
            return text((row.*member)[axis.lane]);
          }};
}

ReportColumns step_columns() {
  return {
      shows("step_ms_p50", &Row::step_ms_p50, "Median step time; a step is the maximum over ranks.", "ms"),
      shows("step_ms_p95", &Row::step_ms_p95, "95th percentile of the step times; of two or more.", "ms"),
      shows("step_ms_min", &Row::step_ms_min, "Fastest step.", "ms"),
      shows("step_cv_pct", &Row::step_cv_pct, "Standard deviation of the step times over their mean; of two or more.",
            "%"),
      shows("iterations", &Row::iterations, "Timed steps, none of them instrumented."),
      shows("instrumented_step_ms", &Row::instrumented_step_ms,
            "Step time of the iterations that recorded spans; its excess over step_ms_p50 is their cost.", "ms"),
      shows("compute_ms", &Row::compute_ms, "Union of the compute spans of a step, mean over ranks.", "ms"),
      shows("exposed_comm_ms", &Row::exposed_comm_ms,
            "Union of the communication spans minus compute: what communication really costs.", "ms"),
      shows("idle_ms", &Row::idle_ms, "The rest: instrumented_step_ms - compute_ms - exposed_comm_ms.", "ms"),
      shows("bubble_ms", &Row::bubble_ms, "Idle time while a pipeline receive is awaited; part of idle_ms.", "ms"),
      shows("comm_ms", &Row::comm_ms, "Union of the communication spans, hidden or not.", "ms"),
  };
}

}  // namespace

ReportColumns time_columns() {
  ReportColumns columns = step_columns();
  for (AxisWords const axis : axes) {
    columns.push_back(of_axis(axis, fmt::format("comm_{}_ms", to_string(axis.lane)), "ms", &Row::comm_axis_ms,
                              fmt::format("Union of the {}-parallel communication spans.", axis.kind)));
    columns.push_back(of_axis(
        axis, fmt::format("exposed_{}_ms", to_string(axis.lane)), "ms", &Row::exposed_axis_ms,
        fmt::format("The {}-parallel share of exposed_comm_ms; axes in flight together share equally.", axis.kind)));
  }
  ReportColumns rest{
      shows("ttft_ms", &Row::ttft_ms, "Time to first token: one prefill.", "ms"),
      shows("tpot_ms", &Row::tpot_ms, "Time per output token: one decode step.", "ms"),
      shows("optimizer_ms", &Row::optimizer_ms, "Optimizer part of compute_ms.", "ms"),
  };
  std::ranges::move(rest, std::back_inserter(columns));
  return columns;
}

ReportColumns rate_columns() {
  return {
      shows("tokens_per_s", &Row::tokens_per_s,
            "global_batch * seq / step; decoding makes one token of each sequence: global_batch / step. The seq of a "
            "vision transformer is its patches, that of a detector 1: images a second are samples_per_s.",
            "1/s"),
      shows("tokens_per_s_per_rank", &Row::tokens_per_s_per_rank, "tokens_per_s / ranks.", "1/s"),
      shows("samples_per_s", &Row::samples_per_s, "global_batch / step: sequences, or images.", "1/s"),
      shows("model_tflops_per_rank", &Row::model_tflops_per_rank, "FLOPs of the model (no recompute) / step / ranks.",
            "TFLOP/s"),
      shows("hardware_tflops_per_rank", &Row::hardware_tflops_per_rank,
            "FLOPs that ran, recompute included / step / ranks.", "TFLOP/s"),
      shows("mfu_pct", &Row::mfu_pct, "model_tflops_per_rank / peak_tflops.", "%"),
      shows("hfu_pct", &Row::hfu_pct, "hardware_tflops_per_rank / peak_tflops.", "%"),
      shows("peak_tflops", &Row::peak_tflops, "Dense peak of the device of a rank in the precision that ran (fp8 where a stack has its linear layers in it).", "TFLOP/s"),
      shows("peak_source", &Row::peak_source, "Where the peak comes from, and of which precision a prediction takes it."),
      shows("flops_convention", &Row::flops_convention,
            "Whether causal attention is counted halved; recompute is never part of model FLOPs."),
  };
}

ReportColumns memory_columns() {
  return {
      shows("parameter_bytes", &Row::parameter_bytes, "Weights of the largest rank, master copies excluded.", "bytes"),
      shows("gradient_bytes", &Row::gradient_bytes, "Gradients of the largest rank.", "bytes"),
      shows("optimizer_bytes", &Row::optimizer_bytes, "Optimizer states and master weights of the largest rank.",
            "bytes"),
      shows("activation_bytes", &Row::activation_bytes, "Peak of what forward keeps for backward, on the largest rank.",
            "bytes"),
      shows("memory_peak_bytes", &Row::memory_peak_bytes,
            "Peak of everything, by liveness over the program; measured on a GPU, with what its streams and libraries "
            "keep.",
            "bytes"),
      shows("memory_measured_bytes", &Row::memory_measured_bytes,
            "What it took where it ran: the arena of the largest rank; on a GPU also workspaces and NCCL's buffers.",
            "bytes"),
  };
}

ReportColumns memory_part_columns() {
  return {
      shows("buffer_bytes", &Row::buffer_bytes, "Buffers that last for the whole step, part of memory_peak_bytes.",
            "bytes"),
      shows("temporary_bytes", &Row::temporary_bytes,
            "Tensors that live within an action only, at the peak; part of memory_peak_bytes.", "bytes"),
      shows("reserved_bytes", &Row::reserved_bytes,
            "What the software keeps for itself: context, communicators, fragmentation; part of memory_peak_bytes.",
            "bytes"),
      shows("memory_capacity_bytes", &Row::memory_capacity_bytes, "Memory of the device.", "bytes"),
  };
}

ReportColumns traffic_columns() {
  ReportColumns columns;
  for (AxisWords const axis : axes)
    columns.push_back(
        of_axis(axis, fmt::format("payload_bytes_{}", to_string(axis.lane)), "bytes", &Row::payload_bytes,
                fmt::format("Bytes handed to the {}-parallel communicator by a rank in a step.", axis.kind)));
  for (AxisWords const axis : axes)
    columns.push_back(of_axis(axis, fmt::format("wire_bytes_{}", to_string(axis.lane)), "bytes", &Row::wire_bytes,
                              fmt::format("Bytes a rank sends over the {}-parallel ring in a step: payload * 2(n-1)/n "
                                          "for all-reduce, else (n-1)/n, messages as they are.",
                                          axis.kind)));
  return columns;
}

ReportColumns first_step_columns() {
  return {
      shows("loss", &Row::loss, "Loss of the first step, from the initial weights; empty without a head."),
      shows("grad_norm", &Row::grad_norm,
            "Norm of the gradients of the first step over the whole model, before clipping; empty in inference."),
  };
}

ReportColumns truth_columns() {
  return {
      shows("max_rel_error", &Row::max_rel_error,
            "Largest |a-b| / |b|, in norm, of the loss and of the tensors of gradients and updated weights against the "
            "unsharded step."),
      shows("predicted_step_ms", &Row::predicted_step_ms, "Step time that the simulation foretold.", "ms"),
      shows("prediction_error_pct", &Row::prediction_error_pct,
            "100 * (predicted_step_ms - step_ms_p50) / step_ms_p50.", "%"),
  };
}

ReportColumns band_columns() {
  return {shows("error_band_pct", &Row::error_band_pct,
                "Predicted training steps: four of five published ones of the same stack, precision, kind of model and "
                "scale were told within this, without their source's rows; empty: none was ever scored.",
                "%")};
}

ReportColumns plan_columns() {
  return {
      shows("training_days", &Row::training_days, "Days of the whole training run, failures and stragglers included.",
            "days"),
      shows("device_hours", &Row::device_hours, "training_days * 24 * ranks.", "h"),
      shows("cost_usd", &Row::cost_usd, "device_hours times the price of a device-hour.", "USD"),
      shows("goodput_pct", &Row::goodput_pct,
            "Share of the run's time that trains: checkpoints, lost work, restarts taken off.", "%"),
      tells("pareto", CellKind::text, "true: no planned row is as good in time, memory and cost and better in one.",
            [](Row const& r) { return text(r.pareto); }),
      shows("run_command", &Row::run_command, "The command line that measures what the row foretells."),
      shows("megatron_flags", &Row::megatron_flags, "Flags of Megatron-LM for the same cut; in brackets what differs."),
      shows("torchtitan_flags", &Row::torchtitan_flags,
            "Options of torchtitan for the same cut; in brackets what differs."),
  };
}

std::span<Column<OpsRow> const> ops_columns() {
  static auto const columns = [] {
    std::vector<Column<OpsRow>> all{
        shows("run_id", &OpsRow::run_id, "The summary row that the op belongs to."),
        shows("label", &OpsRow::label, "Layer, op and phase."),
        shows("kind", &OpsRow::kind, "gemm, attention, all_reduce, send, ..."),
        shows("phase", &OpsRow::phase, "forward, backward, recompute, optimizer, ..."),
        shows("axis", &OpsRow::axis, "compute, or the mesh axis the communication is billed to."),
        shows("count", &OpsRow::count, "Times it ran in a step on the rank that ran it most."),
        shows("bytes", &OpsRow::bytes,
              "Bytes of one call: payload of communication, minimal memory traffic of compute.", "bytes"),
        shows("flops", &OpsRow::flops, "Floating-point operations of one call.", "FLOP"),
        shows("p50_us", &OpsRow::p50_us, "Median time of one call, mean over the ranks that ran it.", "us"),
        shows("total_ms", &OpsRow::total_ms,
              "Time of all its calls in a step, overlap not removed; mean over all ranks.", "ms"),
        shows("tflops", &OpsRow::tflops, "flops / p50_us, of a prediction / predicted_us.", "TFLOP/s"),
        shows("algbw_gb_per_s", &OpsRow::algbw_gb_per_s,
              "bytes / p50_us, of a prediction / predicted_us; GB = 1e9 bytes.", "GB/s"),
        shows("busbw_gb_per_s", &OpsRow::busbw_gb_per_s,
              "algbw * 2(n-1)/n for all-reduce, * (n-1)/n for all-gather, reduce-scatter and all-to-all, * 1 "
              "otherwise; 0 in a group of one.",
              "GB/s"),
        shows("predicted_us", &OpsRow::predicted_us, "Time of one call that the cost model foretold.", "us"),
        shows("prediction_error_pct", &OpsRow::prediction_error_pct, "100 * (predicted_us - p50_us) / p50_us.", "%"),
    };
    return in_group("ops", std::move(all));
  }();
  return columns;
}

}  // namespace shardbench
