#include "harness/program/passes/recompute.hpp"

#include <algorithm>
#include <map>

namespace shardbench {

namespace {

LabelId recompute_label(StepProgram& p, LabelId label) {
  OpLabel copy = p.labels[label];
  copy.phase = "recompute";
  auto const same = [&](OpLabel const& l) {
    return l.name == copy.name && l.phase == copy.phase && l.kind == copy.kind && l.axis == copy.axis;
  };
  auto const it = std::ranges::find_if(p.labels, same);
  return it == p.labels.end() ? p.labels.add(copy) : LabelId(it - p.labels.begin());
}

}  // namespace

void add_recompute(StepProgram& p, Cut const& cut, Chunk const& chunk, std::vector<Op> const& forward,
                   std::vector<Op>& backward) {
  std::int64_t const count = cut.recompute_layers > 0 ? std::min(cut.recompute_layers, chunk.layers) : chunk.layers;
  std::map<std::int32_t, std::vector<Op>> again;
  for (Op const& op : forward) {
    // Selective recomputation repeats the attention core only (Korthikanti et al. 2022).
    if (op.layer < chunk.first_layer || op.layer >= chunk.first_layer + count ||
        (cut.recompute == Recompute::selective && !op.attention_core))
      continue;
    auto& ops = again[op.layer];
    Op copy = op;
    copy.flop_class = FlopClass::recompute;
    copy.part = BackwardPart::input;
    copy.label = recompute_label(p, op.label);
    if (ops.empty() && copy.kind == OpKind::norm_forward && std::get<NormShape>(copy.shape).residual) {
      // The layer's input is the sum that the forward pass kept; only the norm is repeated.
      std::get<NormShape>(copy.shape).residual = false;
      copy.inputs[0] = copy.outputs[3];
      copy.inputs[1] = copy.outputs[3] = TensorRef{};
    }
    ops.push_back(std::move(copy));
  }
  std::vector<Op> out;
  std::vector<TensorRef> unread;
  for (Op& op : backward) {
    if (auto const it = again.find(op.layer); it != again.end()) {
      out.insert(out.end(), it->second.begin(), it->second.end());
      // A layer that ends in a collective repeats that too, though nobody reads it: backward computes when it is over.
      Op const& last = it->second.back();
      if (last.stream != StreamId::compute) unread = last.outputs;
      again.erase(it);
    }
    if (op.stream == StreamId::compute) op.after.insert(op.after.end(), unread.begin(), unread.end()), unread.clear();
    out.push_back(std::move(op));
  }
  backward = std::move(out);
}

}  // namespace shardbench
