#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/shardbench/cli/commands.hpp"
#include "bench/shardbench/cli/experiment_of.hpp"
#include "bench/shardbench/explain/layer_explanation.hpp"
#include "harness/config/field_text.hpp"
#include "harness/report/text.hpp"
#include "harness/simulate/predict.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

using Json = nlohmann::ordered_json;

/// The middle of a model: a layer like most others.
std::int64_t layer_of(Arguments const& arguments, Experiment const& e) {
  if (!arguments.has("layer")) return e.model.layers / 2;
  return static_cast<std::int64_t>(parse_number("layer", arguments.option("layer"), 0, 1e6));
}

std::string shape_text(ExplainedTensor const& t) {
  if (t.rows == 0) return "";
  std::string const local = fmt::format("{} x {}", t.rows, t.cols);
  bool const whole = t.rows == t.global_rows && t.cols == t.global_cols;
  return whole ? local : fmt::format("{} of {} x {}", local, t.global_rows, t.global_cols);
}

std::string kind_text(ExplainedOp const& op) {
  std::string kind = op.kind;
  if (op.communicates)
    std::ranges::replace(kind, '_', '-');
  else
    std::ranges::replace(kind, '_', ' ');
  return op.communicates ? fmt::format("{} over {} ({})", kind, op.axis, op.ranks) : kind;
}

/// The op, and for a collective that is named after another the product that it is there for.
std::string name_text(ExplainedOp const& op) {
  bool const sums = op.kind == to_string(OpKind::all_reduce) || op.kind == to_string(OpKind::reduce_scatter);
  bool const told = !sums || op.caused_by.empty() || op.name.starts_with(op.caused_by);
  return told ? op.name : fmt::format("{}.dx, summed [{}]", op.caused_by, op.name);
}

/// Words left, numbers right; each column as wide as its widest cell.
std::vector<std::string> aligned(std::vector<std::vector<std::string>> const& rows, std::size_t words) {
  std::vector<std::size_t> width(rows.front().size());
  for (auto const& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  std::vector<std::string> lines;
  for (auto const& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      if (width[i] > 0)
        line += i < words ? fmt::format("{:<{}}  ", row[i], width[i]) : fmt::format("{:>{}}  ", row[i], width[i]);
    lines.push_back(line.substr(0, line.find_last_not_of(' ') + 1));
  }
  return lines;
}

void print_ops(std::string_view heading, std::vector<ExplainedOp> const& ops, bool timed) {
  if (ops.empty()) return;
  std::vector<std::vector<std::string>> rows{{"operation", "what", "result, of all ranks'", "lies", "weight", "bytes",
                                              "FLOPs", timed ? "time" : "", timed ? "of the step" : ""}};
  for (ExplainedOp const& op : ops)
    rows.push_back({name_text(op), kind_text(op), shape_text(op.result), op.result.rows > 0 ? op.result.placement : "",
                    op.weight ? fmt::format("{}, {}", shape_text(*op.weight), op.weight->placement) : "",
                    bytes_text(op.bytes), op.flops > 0 ? flops_text(op.flops) : "",
                    timed ? fmt::format("{:.1f} us", op.us) : "",
                    timed ? fmt::format("{:.2f}%", 100 * op.step_share) : ""});
  std::vector<std::string> const lines = aligned(rows, 5);
  fmt::print("\n{}\n  {}\n", heading, lines.front());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    fmt::print("  {}\n", lines[i + 1]);
    if (!ops[i].why.empty()) fmt::print("      why: {}\n", ops[i].why);
  }
}

double sum_of(std::vector<ExplainedOp> const& ops, bool communicates, double ExplainedOp::*member) {
  double sum = 0;
  for (ExplainedOp const& op : ops)
    if (op.communicates == communicates) sum += op.*member;
  return sum;
}

void print_sums(LayerExplanation const& x, bool timed) {
  fmt::print("\n");
  for (auto const& [name, ops] : {std::pair{"forward", &x.forward}, {"backward", &x.backward}}) {
    if (ops->empty()) continue;
    fmt::print("{:<10}{}, {} of collectives", name, flops_text(sum_of(*ops, false, &ExplainedOp::flops)),
               bytes_text(sum_of(*ops, true, &ExplainedOp::bytes)));
    if (timed)
      fmt::print("; {:.1f} us of compute, {:.1f} us of communication", sum_of(*ops, false, &ExplainedOp::us),
                 sum_of(*ops, true, &ExplainedOp::us));
    fmt::print("\n");
  }
}

Json tensor_json(ExplainedTensor const& t) {
  return {{"name", t.name},
          {"local", {t.rows, t.cols}},
          {"global", {t.global_rows, t.global_cols}},
          {"placement", t.placement}};
}

Json ops_json(std::vector<ExplainedOp> const& ops, bool timed) {
  Json all = Json::array();
  for (ExplainedOp const& op : ops) {
    Json entry{{"operation", op.name}, {"kind", op.kind}, {"phase", op.phase}};
    entry["axis"] = op.communicates ? Json(op.axis) : Json(nullptr);
    entry["ranks"] = op.communicates ? Json(op.ranks) : Json(nullptr);
    entry["result"] = tensor_json(op.result);
    entry["weight"] = op.weight ? tensor_json(*op.weight) : Json(nullptr);
    entry["why"] = op.why.empty() ? Json(nullptr) : Json(op.why);
    entry["caused_by"] = op.caused_by.empty() ? Json(nullptr) : Json(op.caused_by);
    entry["bytes"] = op.bytes, entry["flops"] = op.flops, entry["calls"] = op.calls;
    entry["predicted_us"] = timed ? Json(op.us) : Json(nullptr);
    entry["step_share_pct"] = timed ? Json(100 * op.step_share) : Json(nullptr);
    all.push_back(std::move(entry));
  }
  return all;
}

}  // namespace

int explain_command(Arguments const& arguments) {
  std::string const system = arguments.option("system");
  if (system.empty() && arguments.has("stack")) throw InputError("--stack: needs --system, which it runs on");
  Experiment const e = resolved_experiment(arguments);
  if (e.model.yolo) throw InputError("--model: explain takes models of transformer layers, not detectors");
  print_warnings(e);
  LoweredStep const step = lower_step(e);
  std::optional<CostModel> model;
  double step_ms = 0;
  if (!system.empty()) {
    model.emplace(load_system(system), load_stack(arguments.has("stack") ? arguments.option("stack") : "ours"));
    step_ms = predict_step(step, *model).step_ms;
  }
  LayerExplanation const x = explain_layer(step, layer_of(arguments, e), model ? &*model : nullptr, step_ms);
  if (arguments.has("json")) {
    Json all{{"model", e.model_name}, {"layer", x.layer}, {"stage", x.stage}, {"cut", ranks_text(e.cut)}};
    all["step_ms"] = model ? Json(step_ms) : Json(nullptr);
    all["forward"] = ops_json(x.forward, model.has_value());
    all["backward"] = ops_json(x.backward, model.has_value());
    all["once_a_step"] = ops_json(x.once, model.has_value());
    fmt::print("{}\n", all.dump(2, ' ', false, Json::error_handler_t::replace));
    return 0;
  }
  fmt::print("{}: layer {} of {} on stage {}, as one rank of {}{} runs it for a microbatch of {} x {} tokens, {}\n",
             e.model_name, x.layer, e.model.layers, x.stage, ranks_text(e.cut),
             e.cut.sequence_parallel ? ", sequence parallel" : "", e.micro_batch, e.seq, to_string(e.precision));
  if (model)
    fmt::print("times on {}, stack {}; 'of the step': all layers and microbatches of the rank, of {:.2f} ms\n",
               model->system().name, model->stack().name, step_ms);
  print_ops("forward", x.forward, model.has_value());
  print_ops("backward", x.backward, model.has_value());
  print_ops("once a step, all layers of the rank", x.once, model.has_value());
  print_sums(x, model.has_value());
  return 0;
}

}  // namespace shardbench
