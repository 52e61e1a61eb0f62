#include <fmt/format.h>

#include <algorithm>

#include "bench/shardbench/cli/commands.hpp"
#include "bench/shardbench/cli/experiment_of.hpp"
#include "bench/shardbench/cli/outputs.hpp"
#include "bench/shardbench/cli/report_page.hpp"
#include "bench/shardbench/cli/trace_file.hpp"
#include "harness/evaluate/error_band.hpp"
#include "harness/evaluate/simulated_row.hpp"
#include "harness/report/columns.hpp"
#include "harness/report/text.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr std::size_t listed_labels = 8;

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

void print_parts(ReportRow const& r, Prediction const& p) {
  double const step = *r.step_ms_p50;
  auto const line = [&](std::string const& what, double ms) {
    fmt::print("  {:<44}{:>12.2f} ms {:>6.1f}%\n", what, ms, percent(ms, step));
  };
  fmt::print("where the time goes, mean over stages\n");
  line("compute", *r.compute_ms);
  for (Lane const lane : {Lane::tp, Lane::cp, Lane::ep, Lane::dp, Lane::pp}) {
    PerAxis exposed = r.exposed_axis_ms, all = r.comm_axis_ms;
    if (exposed[lane])
      line(fmt::format("{} communication waited for, of {:.2f} ms", to_string(lane), *all[lane]), *exposed[lane]);
  }
  line("pipeline bubble", *r.bubble_ms);
  double tail = 0;
  for (StageTimeline const& stage : p.result.stages)
    tail += (p.result.step_ms - stage.end_ms) / static_cast<double>(p.result.stages.size());
  tail = std::min(tail, *r.idle_ms - *r.bubble_ms);
  if (r.experiment.cut.pp > 1) line("done before the slowest stage", tail);
  line("other idle time (host, fixed time of a step)", std::max(*r.idle_ms - *r.bubble_ms - tail, 0.0));
}

/// What the largest loss is, and which knob works on it.
void print_reason(ReportRow const& r) {
  Experiment const& e = r.experiment;
  double const step = *r.step_ms_p50, idle = *r.idle_ms;
  Lane worst = Lane::tp;
  PerAxis exposed = r.exposed_axis_ms;
  for (Lane const lane : {Lane::cp, Lane::ep, Lane::dp, Lane::pp})
    if (exposed[lane].value_or(0) > exposed[worst].value_or(0)) worst = lane;
  double const waited = exposed[worst].value_or(0);
  if (std::max(idle, waited) < 0.05 * step) return;
  if (waited > idle) {
    fmt::print("most lost to {} communication that nothing hides: {:.1f}% of the step\n", to_string(worst),
               percent(waited, step));
    return;
  }
  if (e.cut.pp > 1)
    fmt::print(
        "most lost to the pipeline: {} stages with {} microbatches stand still for {:.1f}% of the step; more "
        "microbatches (--global-batch), fewer stages or {} shrink it\n",
        e.cut.pp, e.microbatches(), percent(idle, step), e.cut.vpp > 1 ? "more chunks (--vpp)" : "--vpp 2 and more");
  else
    fmt::print(
        "most lost to the host: the device stands still for {:.1f}% of the step; larger microbatches shrink it\n",
        percent(idle, step));
}

void print_labels(Prediction const& p, std::size_t stage) {
  std::vector<LabelShare> const shares = label_shares(p.stages[stage].program(), p.result.stages[stage]);
  fmt::print("longest operations of stage {}\n", stage);
  for (std::size_t i = 0; i < std::min(shares.size(), listed_labels); ++i) {
    LabelShare const& s = shares[i];
    fmt::print("  {:<44}{:>12.2f} ms {:>6.1f}%  {} x {:.1f} us\n",
               fmt::format("{} {}{}", s.label.name, s.label.phase,
                           is_communication(s.label.kind) ? fmt::format(" ({})", to_string(s.label.axis)) : ""),
               s.total_ms, percent(s.total_ms, p.step_ms), s.count, 1e3 * s.total_ms / static_cast<double>(s.count));
  }
}

/// What a stack's memory is made of, where it says so.
std::string framework_text(FrameworkBytes const& f) {
  std::string text;
  for (auto const& [what, bytes] : {std::pair{"context", f.context},
                                    {"workspaces", f.workspace},
                                    {"communicators", f.communicators},
                                    {"fragmentation", f.fragmentation}})
    if (bytes > 0) text += fmt::format("{}{} {}", text.empty() ? ": " : ", ", what, bytes_text(bytes));
  return text;
}

void print_result(ReportRow const& r, Prediction const& p, MemoryFit const& memory, CostModel const& model,
                  std::string const& change) {
  Experiment const& e = r.experiment;
  fmt::print("{}: {} layers, seq {}, {} ranks = dp {} x tp {} x pp {} x cp {}, {} microbatches, {}\n", e.model_name,
             e.model.layers, e.seq, e.ranks, e.cut.dp, e.cut.tp, e.cut.pp, e.cut.cp, e.microbatches(),
             to_string(e.precision));
  fmt::print("on        {} ({}), stack {}; simulated\n", r.system, r.device, r.software_stack);
  fmt::print("step      {:.2f} ms, {}, {:.4g} model TFLOP/s a rank ({}), MFU {:.1f}% of {:g} ({})\n", *r.step_ms_p50,
             rate_text(r), *r.model_tflops_per_rank, r.flops_convention, *r.mfu_pct, *r.peak_tflops,
             to_string(model.stack().precision_that_ran(e.precision)));
  fmt::print("accuracy  {}\n", error_band_text(e, model.stack()));
  print_parts(r, p);
  print_reason(r);
  auto const& stages = p.result.stages;
  print_labels(p, std::ranges::max_element(stages, {}, &StageTimeline::compute_ms) - stages.begin());
  fmt::print(
      "memory    {} of {} on stage {} (parameters {}, gradients {}, optimizer {}, buffers {}, activations kept for "
      "backward {}, temporaries {}, reserved {}{})\n",
      bytes_text(memory.needed_bytes), bytes_text(memory.capacity_bytes), memory.stage,
      bytes_text(memory.parameter_bytes), bytes_text(memory.gradient_bytes), bytes_text(memory.optimizer_bytes),
      bytes_text(memory.buffer_bytes), bytes_text(memory.activation_bytes), bytes_text(memory.temporary_bytes),
      bytes_text(memory.reserved_bytes), framework_text(memory.framework));
  if (!r.reason.empty()) fmt::print("{:<10}{}\n", r.outcome == Outcome::passed ? "note" : "problem", r.reason);
  if (!memory.fits() && change.empty()) fmt::print("change    no single knob makes it fit; use more ranks\n");
}

void write_spans(std::string const& path, Experiment const& e, Prediction const& p) {
  if (path.empty()) return;
  std::vector<std::int64_t> const ranks = representative_ranks(e);
  std::vector<std::string> events;
  for (std::size_t i = 0; i < p.stages.size(); ++i)
    events.push_back(trace_events(static_cast<int>(ranks[i]), p.stages[i].program(), p.result.stages[i].spans));
  write_trace(path, events);
}

}  // namespace

int simulate_command(Arguments const& arguments) {
  std::string const system = arguments.option("system");
  if (system.empty()) throw InputError("--system: missing; `shardbench systems` lists them");
  std::string const stack = arguments.has("stack") ? arguments.option("stack") : "ours";
  CostModel const model(load_system(system), load_stack(stack));
  Experiment const e = resolved_experiment(arguments);
  check_outputs(arguments.option("out"));
  if (arguments.has("trace")) check_text_file("trace", arguments.option("trace"), arguments.option("out"));
  if (arguments.has("facts")) check_text_file("facts", arguments.option("facts"), arguments.option("out"));
  ReportPage const page(arguments);
  print_warnings(e);

  auto const [prediction, memory, totals] = predict(lower_step(e), model);
  ReportRow row = start_row(e, Source::simulated);
  row.command = fmt::format("shardbench simulate {} --system {} --stack {}", command_flags(e), system, stack);
  set_totals(row, totals);
  set_prediction(row, prediction, memory, model, totals);
  std::string const change = memory.fits() ? "" : smallest_change_that_fits(e, model.system(), model.stack());
  if (!memory.fits() && !change.empty()) row.reason += fmt::format("; fits with {}", change);

  std::vector<OpsRow> const ops = predicted_ops_rows(row.run_id, prediction);
  append_result(arguments.option("out"), row, ops);
  write_spans(arguments.option("trace"), e, prediction);
  if (page.wanted() || arguments.has("facts")) {
    ReportFacts const facts = facts_of(row.run_id, e, prediction, memory, model.system());
    write_facts(arguments, facts);
    page.write({row}, ops, facts);
  }
  if (arguments.has("json"))
    fmt::print("{}\n", to_json(std::span(&row, 1)));
  else
    print_result(row, prediction, memory, model, change);
  return row.outcome == Outcome::passed ? 0 : 1;
}

}  // namespace shardbench
