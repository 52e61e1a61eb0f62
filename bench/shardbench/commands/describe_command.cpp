#include <fmt/format.h>

#include "bench/shardbench/cli/commands.hpp"
#include "bench/shardbench/cli/experiment_of.hpp"
#include "bench/shardbench/cli/outputs.hpp"
#include "bench/shardbench/commands/describe_json.hpp"
#include "harness/config/yolo.hpp"
#include "harness/program/models/model_graph.hpp"
#include "harness/report/csv.hpp"
#include "harness/report/text.hpp"

namespace shardbench {
namespace {

/// What a vision model is trained on here, where that is not a classifier's labels.
void print_images(Experiment const& e) {
  ModelConfig const& m = e.model;
  if (m.yolo)
    fmt::print(
        "images of {} px, {} classes; forward pass {} an image with both heads; gradients of the outputs are drawn "
        "(no detection loss), batch norm sees one microbatch of one rank\n",
        m.yolo->image_size, m.yolo->classes, flops_text(static_cast<double>(yolo_flops(*m.yolo, true))));
  if (!m.vision) return;
  VisionConfig const& v = *m.vision;
  fmt::print("images of {} px in patches of {} px{}, {}\n", v.image_size, v.patch_size,
             v.class_token ? " and a class token" : "",
             m.has_classifier() ? fmt::format("{} classes", v.classes)
                                : fmt::format("no classifier (--classes N adds one): the loss takes the {} features of "
                                              "an image as logits",
                                              m.outputs()));
}

void print_model(Description const& d) {
  ModelConfig const& m = d.experiment.model;
  fmt::print("{}: {} layers", d.experiment.model_name, m.layers);
  if (m.hidden > 0)
    fmt::print(", hidden {}, ffn {}, heads {}/{} (query/kv), vocabulary {}", m.hidden, m.ffn_hidden, m.heads,
               m.kv_heads, m.vocab);
  Experiment const& e = d.experiment;
  std::string const rotation = m.rope_text();
  fmt::print("{}{}\n", rotation.empty() ? "" : "; ", rotation);
  print_images(e);
  fmt::print("cut: {}, ep {}, zero {}, {}; {} microbatches of {} x {}, global batch {}, {}\n", ranks_text(e.cut),
             e.cut.ep, e.cut.zero_stage, to_string(e.cut.schedule), e.microbatches(), e.micro_batch,
             m.yolo ? "1 image" : fmt::format("{} tokens", e.seq), e.global_batch, to_string(e.precision));
}

void print_parameters(Description const& d) {
  ParameterCount const& p = d.parameters;
  auto const line = [](char const* what, std::int64_t n) {
    fmt::print("  {:<22}{:>24}\n", what, grouped(static_cast<double>(n)));
  };
  fmt::print("\nparameters\n");
  line("total", p.total);
  if (p.active != p.total) line("active for a token", p.active);
  line("embedding", p.embedding);
  line("head", p.head);
  line("blocks", p.blocks);
  line("norms", p.norms);
  if (p.mtp > 0) line(d.experiment.mtp > 0 ? "MTP, beside these" : "MTP, not in the step", p.mtp);
  if (d.totals) line("held by a rank (most)", d.totals->parameters_held);
}

void print_flops(StepTotals const& t) {
  fmt::print("\nFLOPs of a step, mean over ranks\n");
  fmt::print("  {:<46}{:>12}\n", "model, causal attention halved (Megatron)", flops_text(t.model_flops));
  fmt::print("  {:<46}{:>12}\n", "model, causal attention whole (torchtitan)", flops_text(t.model_flops_full));
  fmt::print("  {:<46}{:>12}\n", "hardware, recompute included, halved", flops_text(t.hardware_flops));
}

void print_traffic(StepTotals const& t) {
  fmt::print("\ntraffic of a step, mean over ranks: payload (handed to the communicator), wire (on a ring)\n");
  bool any = false;
  for (std::size_t a = 0; a < axis_count; ++a) {
    AxisTraffic const& axis = t.traffic[a];
    if (axis.calls == 0) continue;
    any = true;
    fmt::print("  {:<4} payload {:>10}   wire {:>10}\n", to_string(static_cast<Axis>(a)),
               bytes_text(axis.payload_bytes), bytes_text(axis.wire_bytes));
  }
  if (!any) fmt::print("  none\n");
}

void print_memory(StepTotals const& t) {
  fmt::print("\nmemory of the fullest rank (stage {}), {} microbatch{} in flight\n", t.fullest_stage,
             t.microbatches_in_flight, t.microbatches_in_flight == 1 ? "" : "es");
  auto const line = [](char const* what, std::int64_t bytes) {
    fmt::print("  {:<22}{:>12}\n", what, bytes_text(static_cast<double>(bytes)));
  };
  line("parameters", t.parameter_bytes);
  line("gradients", t.gradient_bytes);
  line("optimizer, masters", t.optimizer_bytes);
  line("inputs", t.buffer_bytes);
  if (t.kv_cache_bytes > 0) line("kv cache", t.kv_cache_bytes);
  line("activations, peak", t.activation_bytes);
  line("total, peak", t.peak_bytes);
  fmt::print("  largest at the peak:");
  for (auto const& [name, bytes] : t.largest_tensors)
    fmt::print(" {} {};", name, bytes_text(static_cast<double>(bytes)));
  fmt::print("\n");
}

void print_description(Description const& d) {
  print_model(d);
  print_parameters(d);
  if (d.totals) {
    print_flops(*d.totals);
    print_traffic(*d.totals);
    print_memory(*d.totals);
  } else {
    fmt::print("\n{}\n", d.not_counted);
  }
}

}  // namespace

int describe_command(Arguments const& arguments) {
  check_outputs(arguments.option("out"));
  Description d;
  d.experiment = resolved_experiment(arguments);
  print_warnings(d.experiment);
  d.parameters = count_parameters(d.experiment.model);
  std::string const missing = unsupported_part(d.experiment.model, d.experiment.scope == Scope::model);
  if (missing.empty())
    d.totals = total_step(lower_step(d.experiment));
  else
    d.not_counted = fmt::format("not counted: FLOPs, traffic and memory ({} of {} have no lowering yet)", missing,
                                d.experiment.model_name);
  if (arguments.has("json"))
    fmt::print("{}\n", description_json(d));
  else
    print_description(d);
  ReportRow row = start_row(d.experiment, Source::counted);
  if (d.totals) set_totals(row, *d.totals);
  if (!d.not_counted.empty()) row.reason += (row.reason.empty() ? "" : "; ") + d.not_counted;
  if (d.totals)
    for (std::size_t a = 0; a < axis_count; ++a)
      if (d.totals->traffic[a].calls > 0)
        row.payload_bytes[lane_of(static_cast<Axis>(a))] = d.totals->traffic[a].payload_bytes;
  append_result(arguments.option("out"), row, {});
  return 0;
}

}  // namespace shardbench
