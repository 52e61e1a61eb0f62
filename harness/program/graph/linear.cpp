// Products with a weight: where operands must lie for the weight's cut, and the three products of its passes.
#include "harness/program/graph/linear.hpp"

#include <utility>

#include "harness/program/graph/overlap.hpp"
#include "harness/program/graph/redistribute.hpp"
#include "harness/program/graph/streams.hpp"

namespace shardbench {

namespace {

ParameterId add_bias(Tape& t, std::string const& name, std::vector<ParameterSection> sections, std::int64_t rows,
                     Placement const& placement) {
  for (ParameterSection& s : sections) {
    s.key += ".bias";
    if (is_shard(placement, 1)) s.tp_copies = 0;
  }
  return t.add_parameter({.name = name + ".bias",
                          .sections = std::move(sections),
                          .rows = rows,
                          .cols = 1,
                          .global_cols = 1,
                          .init = InitKind::zeros,
                          .bucket = {}});
}

LinearWeights add_weights(Tape& t, LinearSpec const& spec) {
  LinearWeights w{spec.shared_weight, {}, weight_placement(t, spec.role)};
  if (w.weight.valid()) return w;
  Parameter weight = cut_weight(t, spec, w.placement);
  Parameter const cut = weight;
  weight.name += ".weight";
  for (ParameterSection& s : weight.sections) s.key += ".weight";
  // A head that reads the embedding's weight from another stage holds a copy of it.
  weight.tied = weight.copy = spec.role == "embedding.word";
  w.weight = t.add_parameter(std::move(weight));
  if (spec.bias) w.bias = add_bias(t, cut.name, cut.sections, cut.rows, w.placement);
  return w;
}

/// How the input must lie for a weight that is cut so.
Layout input_layout(Layout layout, Placement const& weight) {
  Placement& tp = layout[Axis::tp];
  if ((is_shard(weight, 0) && !is_private(tp)) || is_partial(tp) || (!is_shard(weight) && is_shard(tp, feature_dim)))
    tp = Replicate{};
  if (is_shard(weight, 1)) tp = Shard{feature_dim};
  return layout;
}

void linear_backward(Tape& t, Value x, Value y, LinearSpec const& spec, LinearWeights const& w) {
  TensorRef const dy = t.take_gradient(y);
  ValueState const& in = t[x];
  TensorRef saved = in.ref;
  if (in.gathered_from.valid())
    if (ValueState const& source = t[in.gathered_from]; is_shard(source.layout[Axis::tp], sequence_dim))
      // Keeping the sequence-cut input and gathering it again costs a collective and saves tp - 1 parts of memory.
      saved = move_to(t, source.matrix(), source.layout, in.layout, spec.name + ".regather").ref;
  if (spec.input_gradient) {
    std::int64_t const outputs = t.program.parameters[w.weight].rows, inputs = t.program.parameters[w.weight].cols;
    TensorRef const dx = t.temporary(spec.name + ".dx", in.rows, inputs);
    t.emit(OpKind::gemm, GemmShape{in.rows, inputs, outputs, false, false, spec.model_share()}, spec.name + ".dx",
           {dy, t.weight(w.weight), {}}, {dx});
    t.accumulate(x, dx, is_shard(w.placement, 0) ? with(in.layout, Axis::tp, Partial{}) : in.layout);
  }
  weight_gradients(t, spec, w, dy, saved, in.rows, in.layout);
}

}  // namespace

void weight_gradients(Tape& t, LinearSpec const& spec, LinearWeights const& w, TensorRef dy, TensorRef input,
                      std::int64_t rows, Layout rows_layout) {
  std::int64_t const outputs = t.program.parameters[w.weight].rows, inputs = t.program.parameters[w.weight].cols;
  // Each rank has a part of its own of a cut weight, whatever its rows came from.
  if (is_shard(w.placement)) rows_layout[Axis::tp] = Replicate{};
  t.writes_gradient(t.emit(OpKind::gemm, GemmShape{outputs, inputs, rows, true, false, spec.model_share()},
                           spec.name + ".dw", {dy, input, {}}, {t.gradient(w.weight)}),
                    w.weight, rows_layout);
  emit_bias_gradient(t, dy, rows, outputs, w.bias, rows_layout, spec.name);
  reduce_replicated_sections(t, w.weight, w.placement, spec.sections, spec.name);
  reduce_replicated_sections(t, w.bias, w.placement, spec.sections, spec.name + ".bias");
}

Value linear(Tape& t, Value x, LinearSpec const& spec) {
  Placement const placement = weight_placement(t, spec.role);
  bool const streams = residual_streams(t) > 1;
  bool const input_cut = is_shard(streams ? t.strategy.weight(spec.role) : placement, 1);
  if (has_private_blocks(t)) check_private_cut(t, spec, t[x].layout);
  // An uncut table that is the head, too: as an embedding it sees all rows, and its two gradients must be of a kind.
  if (spec.shared_weight.valid() && !is_shard(placement)) x = all_rows(t, x);
  if (streams && input_cut) x = own_blocks(t, x, spec.name + ".input");
  Layout const need = input_layout(t[x].layout, placement);
  bool const overlaps = overlaps_collective(t, x, spec, placement);
  LinearWeights w = add_weights(t, spec);  // first: it is what names an impossible cut
  // Where product and gather overlap, slices are gathered between the products.
  if (!overlaps || !gathers_rows(t, x, placement)) x = t.redistribute(x, need, spec.name + ".input");
  if (overlaps) return overlapped_linear(t, x, spec, w);
  Parameter const& p = t.program.parameters[w.weight];
  std::int64_t const rows = t[x].rows, outputs = p.rows, inputs = p.cols;
  Layout layout = need;
  if (is_shard(placement, 0)) layout[Axis::tp] = Shard{feature_dim};
  if (is_shard(placement, 1)) layout[Axis::tp] = Partial{};
  Value const y = t.value(spec.name, rows, outputs, layout, spec.outputs());
  // The bias is a term of the sum, so where the sum is spread over ranks one of them adds it. Private channels never
  // see the whole sum: each rank adds it there, when the branch joins the residual stream.
  if (has_private_blocks(t) && input_cut) t[y].late_bias = std::exchange(w.bias, {});
  bool const adds_bias = !is_shard(placement, 1) || t.program.coordinate[Axis::tp] == 0;
  t.emit(OpKind::gemm, GemmShape{rows, outputs, inputs, false, true, spec.model_share()}, spec.name,
         {t[x].ref, t.weight(w.weight), adds_bias ? t.weight(w.bias) : TensorRef{}}, {t[y].ref});
  t.on_backward([=, &t] { linear_backward(t, x, y, spec, w); });
  return streams && input_cut ? sync_streams(t, y, spec.name + ".reduce") : y;
}

}  // namespace shardbench
