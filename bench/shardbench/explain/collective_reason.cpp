#include "bench/shardbench/explain/collective_reason.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/program/graph/layout.hpp"

namespace shardbench {
namespace {

TensorPlacement const term{"partial(sum)", 1, 1}, routed{"routed to experts", 1, 1},
    experts{"experts of this rank", 1, 1};

bool forwards(Segment const& s) { return s.kind == ActionKind::forward || s.kind == ActionKind::decode; }
bool backwards(Segment const& s) {
  return s.kind == ActionKind::backward || s.kind == ActionKind::backward_input ||
         s.kind == ActionKind::backward_weight;
}

/// "mlp.up" of "mlp.up.dx", "mlp.up.input", "mlp.up.regather".
std::string stem(std::string name) {
  for (std::string_view const ending : {".dx", ".dw", ".input", ".reduce", ".regather", ".pack"})
    if (name.ends_with(ending)) name.resize(name.size() - ending.size());
  return name;
}

TensorPlacement cut_by(bool sequence, std::int64_t parts) {
  return sequence ? TensorPlacement{"shard(sequence)", parts, 1} : TensorPlacement{"shard(features)", 1, parts};
}

std::string pieces(std::int64_t ranks) { return fmt::format("{} pieces", ranks); }

}  // namespace

LayerOps::LayerOps(StepProgram const& program, std::int32_t layer) : program_(program), layer_(layer) {
  forward_ = collect(true);
  backward_ = collect(false);
}

std::vector<PlacedOp> LayerOps::collect(bool forward) {
  std::vector<PlacedOp> out;
  for (Segment const& segment : program_.segments) {
    if (forward ? !forwards(segment) : !backwards(segment)) continue;
    for (Op const& op : segment.ops) {
      if (op.layer != layer_) continue;
      TensorPlacement const lies = placed(op, forward);
      if (!forward && !op.outputs.empty() && op.outputs.front().valid())
        lies_[program_.storage_of(op.outputs.front().id)] = lies;
      out.push_back({&op, lies});
    }
  }
  return out;
}

/// What no axis cuts.
TensorPlacement LayerOps::everywhere() const {
  bool const cut = program_.degree[Axis::tp] > 1 || program_.degree[Axis::cp] > 1;
  return {cut ? "replicate" : "whole", 1, 1};
}

/// Whether an op makes rows that lie by experts, not by tokens.
bool LayerOps::is_routed(Op const& op) const {
  if (op.kind == OpKind::permute || op.kind == OpKind::grouped_gemm) return true;
  bool const of_experts = program_.labels[op.label].name.starts_with("moe.");
  return of_experts && (op.kind == OpKind::activation_forward || op.kind == OpKind::activation_backward ||
                        (op.kind == OpKind::all_to_all && program_.groups[op.group].axis == Axis::ep));
}

TensorId LayerOps::weight_of(Op const& op) const {
  if (op.kind != OpKind::gemm && op.kind != OpKind::grouped_gemm) return {};
  for (TensorRef const& in : op.inputs)
    if (in.valid() && program_.tensors[in.id].role == TensorRole::parameter && program_.tensors[in.id].cols > 1)
      return in.id;
  return {};
}

LayerOps::Cut LayerOps::cut_of(TensorId weight) const {
  if (!weight.valid()) return {};
  for (Parameter const& p : program_.parameters)
    if (p.weight == weight) {
      std::int64_t rows = 0;
      for (ParameterSection const& s : p.sections) rows += s.global_rows;
      return {p.rows < rows && !p.expert, p.cols < p.global_cols};
    }
  return {};
}

TensorPlacement LayerOps::weight_placement(TensorId weight) const {
  for (Parameter const& p : program_.parameters) {
    if (p.weight != weight) continue;
    if (p.expert) return experts;
    std::int64_t rows = 0;
    for (ParameterSection const& s : p.sections) rows += s.global_rows;
    std::int64_t const row_parts = std::max<std::int64_t>(1, rows / std::max<std::int64_t>(1, p.rows));
    std::int64_t const col_parts = std::max<std::int64_t>(1, p.global_cols / std::max<std::int64_t>(1, p.cols));
    if (row_parts > 1) return {"shard(0), its outputs", row_parts, 1};
    if (col_parts > 1) return {"shard(1), its inputs", 1, col_parts};
    return everywhere();
  }
  return everywhere();
}

TensorPlacement LayerOps::of_value(TensorId id) const {
  TensorPlacement out;
  out.words.clear();
  for (Axis const axis : {Axis::tp, Axis::cp}) {
    std::int64_t const ranks = program_.degree[axis];
    Placement const& p = program_.tensors[id].placement[axis];
    if (ranks == 1 || is_replicate(p)) continue;
    std::string words = to_string(p);
    if (is_shard(p)) {
      bool const sequence = is_shard(p, sequence_dim);
      (sequence ? out.row_parts : out.col_parts) *= ranks;
      words = sequence ? "shard(sequence)" : "shard(features)";
    }
    bool const both = program_.degree[Axis::tp] > 1 && program_.degree[Axis::cp] > 1;
    out.words += fmt::format("{}{}{}", out.words.empty() ? "" : ", ", words,
                             both ? fmt::format(" over {}", to_string(axis)) : "");
  }
  if (out.words.empty()) out.words = everywhere().words;
  return out;
}

TensorPlacement LayerOps::placed(Op const& op, bool forward) const {
  if (op.outputs.empty() || !op.outputs.front().valid()) return everywhere();
  if (is_routed(op) && program_.tensors[op.outputs.front().id].role != TensorRole::gradient) return routed;
  std::int64_t const ranks = op.group.valid() ? std::ssize(program_.groups[op.group].members) : 1;
  switch (op.kind) {
    case OpKind::all_reduce:
      return everywhere();
    case OpKind::reduce_scatter:
      return cut_by(true, ranks);
    case OpKind::all_gather:
      return everywhere();
    default:
      break;
  }
  // A sum in place ends where the collective behind it leaves it, but is a term of it until then.
  if (forward && cut_of(weight_of(op)).inputs) return term;
  return forward ? of_value(op.outputs.front().id) : of_gradient(op);
}

/// A gradient lies as the operand that it is the gradient of, except where a product makes it a term of a sum.
TensorPlacement LayerOps::of_gradient(Op const& op) const {
  std::int64_t const tp = program_.degree[Axis::tp];
  Tensor const& out = program_.tensors[op.outputs.front().id];
  if (out.role == TensorRole::gradient) {
    for (Parameter const& p : program_.parameters)
      if (p.gradient == op.outputs.front().id) return weight_placement(p.weight);
    return everywhere();
  }
  if (TensorId const weight = weight_of(op); weight.valid()) {
    Cut const cut = cut_of(weight);
    if (cut.outputs) return term;
    if (cut.inputs) return cut_by(false, tp);
  }
  for (PlacedOp const& f : forward_) {
    if (name_of(*f.op) != stem(name_of(op)) || f.op->inputs.empty() || is_communication(f.op->kind)) continue;
    TensorRef const& in = f.op->inputs.front();
    if (in.valid() && program_.tensors[in.id].cols == out.cols && program_.tensors[in.id].rows == out.rows) {
      TensorPlacement lies = of_value(in.id);
      return lies.words.starts_with("partial") ? everywhere() : lies;
    }
  }
  for (TensorRef const& in : op.inputs) {
    if (!in.valid()) continue;
    auto const known = lies_.find(program_.storage_of(in.id));
    if (known != lies_.end()) return known->second;
  }
  return everywhere();
}

Op const* LayerOps::last_product_before(Op const& op, bool forward) const {
  Op const* found = nullptr;
  for (PlacedOp const& other : forward ? forward_ : backward_) {
    if (other.op == &op) return found;
    if (weight_of(*other.op).valid()) found = other.op;
  }
  return found;
}

Op const* LayerOps::product_after(Op const& op, bool forward) const {
  bool behind = false;
  for (PlacedOp const& other : forward ? forward_ : backward_) {
    if (behind && (weight_of(*other.op).valid() || other.op->kind == OpKind::gemm)) return other.op;
    behind = behind || other.op == &op;
  }
  return nullptr;
}

CollectiveReason LayerOps::reason(PlacedOp const& collective) const {
  Op const& op = *collective.op;
  std::int64_t const ranks = std::ssize(program_.groups[op.group].members);
  auto const* const shape = std::get_if<CollectiveShape>(&op.shape);
  std::string const name = stem(name_of(op));
  if (op.kind == OpKind::ring_shift)
    return {
        "attention reads the keys and values of the whole sequence, of which each rank has a piece: they go round "
        "the ring, one piece a turn",
        name};
  if (op.kind == OpKind::all_to_all && program_.groups[op.group].axis == Axis::cp)
    return {
        "attention needs whole sequences of some heads, the rest of the layer all heads of some tokens: pieces "
        "change places (Ulysses)",
        name};
  if (op.kind == OpKind::all_to_all && name.ends_with("counts"))
    return {"ranks tell each other how many tokens will come for which expert", "router"};
  if (op.kind == OpKind::all_to_all)
    return {shape && shape->returning ? "each token's results go back to the rank that it came from"
                                      : "each token goes to the ranks that hold the experts which the router chose",
            "router"};
  if (program_.groups[op.group].axis == Axis::cp)
    return {fmt::format("context parallelism cuts the sequence into {}, and here all of it is needed", pieces(ranks)),
            name};
  bool const in_forward = std::ranges::any_of(forward_, [&](PlacedOp const& f) { return f.op == &op; });
  return in_forward ? forward_reason(op) : backward_reason(op);
}

CollectiveReason LayerOps::forward_reason(Op const& op) const {
  std::int64_t const ranks = std::ssize(program_.groups[op.group].members);
  Op const* const before = last_product_before(op, true);
  Op const* const after = product_after(op, true);
  if ((op.kind == OpKind::all_reduce || op.kind == OpKind::reduce_scatter) && before) {
    std::string const product = name_of(*before);
    std::string why = fmt::format(
        "the weight of {} is cut along its inputs, so that each rank's product is one term of the sum over {} ranks",
        product, ranks);
    if (op.kind == OpKind::reduce_scatter)
      why += "; between blocks each rank keeps its tokens of it (sequence parallelism)";
    return {why, product};
  }
  if (op.kind == OpKind::all_gather && after) {
    std::string const product = name_of(*after);
    if (cut_of(weight_of(*after)).outputs)
      return {fmt::format("the weight of {} is cut along its outputs, so that each rank needs all tokens, of which it "
                          "has one of {}",
                          product, pieces(ranks)),
              product};
    return {
        fmt::format("{} needs all features of a token, which the product before left in {}", product, pieces(ranks)),
        product};
  }
  return {"what follows needs it in another layout", stem(name_of(op))};
}

CollectiveReason LayerOps::backward_reason(Op const& op) const {
  std::int64_t const ranks = std::ssize(program_.groups[op.group].members);
  std::string const name = name_of(op);
  if (op.kind == OpKind::all_reduce || op.kind == OpKind::reduce_scatter) {
    Op const* const before = last_product_before(op, false);
    std::string const product = stem(before ? name_of(*before) : name);
    std::string why = fmt::format(
        "every rank read the whole input of {}, whose weight is cut along its outputs: each rank's gradient of that "
        "input is one term of the sum over {} ranks",
        product, ranks);
    if (op.kind == OpKind::reduce_scatter) why += "; each keeps its tokens, as the all-gather before it had them";
    return {why, product};
  }
  if (name.ends_with(".regather"))
    return {
        fmt::format("the gradient of the weight of {} needs its whole input, of which forward kept one of {} to save "
                    "memory: it is gathered once more",
                    stem(name), pieces(ranks)),
        stem(name)};
  return {fmt::format("forward spread the sum of {} over the ranks (reduce-scatter); its gradient is needed whole for "
                      "the products of its backward",
                      stem(name)),
          stem(name)};
}

std::string data_reason(StepProgram const& program, Op const& op) {
  std::int64_t const ranks = std::ssize(program.groups[op.group].members);
  if (op.kind == OpKind::all_gather)
    return fmt::format("each of {} ranks updates its part of the weights (ZeRO), and all need them whole", ranks);
  if (op.kind == OpKind::reduce_scatter)
    return fmt::format(
        "{} ranks saw other samples: their gradients are added, and each keeps the part that it updates "
        "(ZeRO)",
        ranks);
  return fmt::format("{} ranks saw other samples with the same weights: their gradients are added, once a step", ranks);
}

}  // namespace shardbench
