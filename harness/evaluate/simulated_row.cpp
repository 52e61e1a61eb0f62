#include "harness/evaluate/simulated_row.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/evaluate/error_band.hpp"
#include "harness/evaluate/op_rates.hpp"
#include "harness/program/analysis/count.hpp"
#include "harness/report/text.hpp"

namespace shardbench {
namespace {

void set_memory(ReportRow& row, MemoryFit const& m) {
  row.parameter_bytes = m.parameter_bytes;
  row.gradient_bytes = m.gradient_bytes;
  row.optimizer_bytes = m.optimizer_bytes;
  row.activation_bytes = m.activation_bytes;
  row.memory_peak_bytes = m.needed_bytes;
  row.buffer_bytes = m.buffer_bytes;
  row.temporary_bytes = m.temporary_bytes;
  row.reserved_bytes = m.reserved_bytes;
  row.memory_capacity_bytes = m.capacity_bytes;
  if (m.fits()) return;
  row.outcome = Outcome::failed;
  std::string largest;
  for (auto const& [name, bytes] : m.largest)
    largest += fmt::format("{}{} {}", largest.empty() ? "" : ", ", name, bytes_text(static_cast<double>(bytes)));
  std::string const remarks = row.reason.empty() ? "" : "; " + row.reason;
  row.reason = fmt::format("out of memory: stage {} needs {} of {} (largest: {}){}", m.stage,
                           bytes_text(m.needed_bytes), bytes_text(m.capacity_bytes), largest, remarks);
}

/// Of the calls of a label on all stages: how many, what they move and compute, and in how large a group.
struct Calls {
  double count = 0, counted = 0, bytes = 0, flops = 0;
  OpKind kind = OpKind::gemm;
  std::int64_t ranks = 0;
};

/// Adds those of one stage; `counted`, the step's counts, are of the stage's program.
void add_calls(Calls& calls, LabelShare const& share, StepProgram const& program, StepCount const& counted) {
  bool const transfer = share.label.phase == "transfer";
  LabelCount const& label = transfer ? counted.labels.back() : counted.labels[share.index];
  calls.count += static_cast<double>(share.count);
  calls.counted += static_cast<double>(label.count);
  calls.bytes += label.bytes, calls.flops += label.flops;
  calls.kind = share.label.kind;
  calls.ranks = std::max(calls.ranks, transfer ? 2 : group_ranks(program, LabelId(share.index)));
}

/// A label of one stage, its time summed.
OpsRow row_of(std::string const& run_id, LabelShare const& share) {
  bool const transfer = share.label.phase == "transfer";
  OpsRow row;
  row.run_id = run_id;
  row.label = share.label.name;
  row.kind = transfer ? "send, receive" : to_string(share.label.kind);
  row.phase = share.label.phase;
  row.axis = transfer || is_communication(share.label.kind) ? to_string(share.label.axis) : "compute";
  row.count = share.count;
  row.total_ms = share.total_ms;
  return row;
}

}  // namespace

PredictedStep predict(LoweredStep const& step, CostModel const& model) {
  PredictedStep out;
  out.prediction = predict_step(step, model);
  out.memory = memory_fit(out.prediction.stages, model.system(), model.stack());
  out.totals = total_step(step, false);
  return out;
}

void set_prediction(ReportRow& row, Prediction const& p, MemoryFit const& memory, CostModel const& model,
                    StepTotals const& totals) {
  row.system = model.system().name;
  row.software_stack = model.stack().name;
  row.device = model.system().device.name;
  row.device_count = row.experiment.ranks;
  row.attention_kernel = model.stack().attention == AttentionKind::flash ? "flash" : "unfused";
  set_breakdown(row, p.breakdown);
  row.instrumented_step_ms = std::nullopt;
  row.step_ms_p50 = p.step_ms;
  row.predicted_step_ms = p.step_ms;
  row.optimizer_ms = p.optimizer_ms;
  for (Axis const a : enum_values<Axis>())
    if (totals.traffic[a].calls > 0) row.payload_bytes[lane_of(a)] = totals.traffic[a].payload_bytes;
  set_rates(row, totals);
  Dtype const ran = model.stack().precision_that_ran(row.experiment.precision);
  set_utilization(row, model.system().peak_tflops_of(ran), fmt::format("system profile, {}", to_string(ran)));
  row.error_band_pct = error_band_pct(row.experiment, model.stack());
  set_memory(row, memory);
}

std::vector<LabelShare> label_shares(StepProgram const& program, StageTimeline const& stage) {
  std::vector<LabelShare> shares(program.labels.size() + 1);
  for (std::uint32_t i = 0; i < program.labels.size(); ++i) shares[i].label = program.labels[i], shares[i].index = i;
  shares.back().label = {"pipeline", "transfer", OpKind::send, Axis::pp};
  for (Span const& span : stage.spans) {
    LabelShare& share = shares[std::min<std::size_t>(span.label, program.labels.size())];
    ++share.count;
    share.total_ms += span.end_ms - span.start_ms;
  }
  std::erase_if(shares, [](LabelShare const& s) { return s.count == 0; });
  std::ranges::stable_sort(shares, std::greater<>{}, &LabelShare::total_ms);
  return shares;
}

std::vector<OpsRow> predicted_ops_rows(std::string const& run_id, Prediction const& p) {
  std::vector<OpsRow> rows;
  std::vector<Calls> calls;  // of each row
  for (std::size_t i = 0; i < p.stages.size(); ++i) {
    StepCount const counted = count_step(p.stages[i].program(), p.stages[i].replay());
    for (LabelShare const& share : label_shares(p.stages[i].program(), p.result.stages[i])) {
      OpsRow row = row_of(run_id, share);
      auto const same = [&](OpsRow const& r) {
        return r.label == row.label && r.kind == row.kind && r.phase == row.phase && r.axis == row.axis;
      };
      auto const found = std::ranges::find_if(rows, same);
      auto const at = found - rows.begin();
      if (found == rows.end()) {
        rows.push_back(std::move(row));
        calls.emplace_back();
      } else {
        found->count = std::max(*found->count, share.count);
        *found->total_ms += share.total_ms;
      }
      add_calls(calls[at], share, p.stages[i].program(), counted);
    }
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Calls const& c = calls[i];
    rows[i].predicted_us = 1e3 * *rows[i].total_ms / c.count;
    rows[i].bytes = c.bytes / std::max(c.counted, 1.0), rows[i].flops = c.flops / std::max(c.counted, 1.0);
    set_op_rates(rows[i], c.kind, c.ranks, *rows[i].predicted_us);
    *rows[i].total_ms /= static_cast<double>(p.stages.size());
  }
  std::ranges::stable_sort(rows, std::greater<>{}, [](OpsRow const& r) { return *r.total_ms; });
  return rows;
}

}  // namespace shardbench
