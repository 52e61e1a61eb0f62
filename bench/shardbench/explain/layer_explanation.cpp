#include "bench/shardbench/explain/layer_explanation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "bench/shardbench/explain/collective_reason.hpp"
#include "harness/program/analysis/count.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

/// Walks the ops of one layer in one stage's program.
class Explainer {
 public:
  Explainer(LoweredStage const& stage, std::int64_t layer, CostModel const* model, double step_ms)
      : p_(stage.program()), layers_(p_, static_cast<std::int32_t>(layer)), model_(model), step_ms_(step_ms) {
    StepCount const counted = count_step(p_, stage.replay());
    for (LabelCount const& label : counted.labels) calls_.push_back(label.count);
  }

  LayerExplanation explain() {
    LayerExplanation out;
    out.stage = p_.stage;
    for (PlacedOp const& op : layers_.forward()) out.forward.push_back(explained(op));
    for (PlacedOp const& op : layers_.backward()) out.backward.push_back(explained(op));
    add_once(out.once);
    return out;
  }

 private:
  ExplainedOp explained(PlacedOp const& placed) {
    Op const& op = *placed.op;
    OpLabel const& label = p_.labels[op.label];
    ExplainedOp e;
    e.name = label.name, e.kind = to_string(op.kind), e.phase = label.phase;
    e.communicates = is_communication(op.kind);
    e.calls = calls_[op.label];
    if (!op.outputs.empty() && op.outputs.front().valid()) e.result = tensor(op.outputs.front().id, placed.placement);
    if (TensorId const w = layers_.weight_of(op); w.valid()) e.weight = tensor(w, layers_.weight_placement(w));
    if (e.communicates) {
      Group const& group = p_.groups[op.group];
      e.axis = to_string(group.axis), e.ranks = std::ssize(group.members);
      e.bytes = collective_payload(p_, op);
      CollectiveReason const reason = layers_.reason(placed);
      e.why = reason.why, e.caused_by = reason.caused_by;
    } else {
      OpCost const cost = op_cost(p_, op, false);
      e.bytes = cost.bytes, e.flops = cost.flops;
    }
    time(e, op);
    return e;
  }

  void time(ExplainedOp& e, Op const& op) const {
    if (!model_) return;
    double const ms = e.communicates ? model_->collective_ms(p_, op) : model_->compute_ms(p_, op, false);
    e.us = 1e3 * ms;
    if (step_ms_ > 0) e.step_share = ms * static_cast<double>(e.calls) / step_ms_;
  }

  ExplainedTensor tensor(TensorId id, TensorPlacement const& placement) const {
    Tensor const& t = p_.tensors[id];
    ExplainedTensor e;
    e.name = t.name;
    e.rows = t.rows, e.cols = t.cols;
    e.global_rows = t.rows * placement.row_parts, e.global_cols = t.cols * placement.col_parts;
    e.placement = placement.words;
    return e;
  }

  /// Collectives of the data axes outside layers: gradients and weights, each label once with all its calls.
  void add_once(std::vector<ExplainedOp>& once) {
    for (Segment const& segment : p_.segments)
      for (Op const& op : segment.ops) {
        if (!is_communication(op.kind) || !op.group.valid() || !op.label.valid()) continue;
        Axis const axis = p_.groups[op.group].axis;
        OpLabel const& label = p_.labels[op.label];
        auto const same = [&](ExplainedOp const& e) { return e.name == label.name && e.kind == to_string(op.kind); };
        if (axis != Axis::dp || std::ranges::any_of(once, same)) continue;
        ExplainedOp e = explained({&op, {"whole", 1, 1}});
        e.why = data_reason(p_, op), e.caused_by = label.name;
        once.push_back(std::move(e));
      }
  }

  StepProgram const& p_;
  LayerOps layers_;
  CostModel const* model_;
  double step_ms_;
  std::vector<std::int64_t> calls_;
};

bool holds(StepProgram const& program, std::int64_t layer) {
  return std::ranges::any_of(
      program.chunks, [&](Chunk const& c) { return c.first_layer <= layer && layer < c.first_layer + c.layers; });
}

}  // namespace

LayerExplanation explain_layer(LoweredStep const& step, std::int64_t layer, CostModel const* model, double step_ms) {
  for (LoweredStage const& stage : step.stages)
    if (holds(stage.program(), layer)) {
      LayerExplanation out = Explainer(stage, layer, model, step_ms).explain();
      out.layer = layer;
      return out;
    }
  throw InputError(fmt::format("--layer: {} is no layer of {}; allowed: 0 to {}", layer, step.experiment.model_name,
                               step.experiment.model.layers - 1));
}

}  // namespace shardbench
