#include "harness/program/graph/overlap.hpp"

#include "harness/program/graph/redistribute.hpp"

namespace shardbench {

namespace {

/// y[rows, outputs] = x[rows, inputs] * W, W transposed in the forward pass.
struct Product {
  std::string name;
  TensorRef weight, bias;
  std::int64_t outputs, inputs;
  bool forward;
  double model_share;  ///< of LinearSpec
};

/// Whether the layer ends a branch, whose sum joins the residual stream.
bool joins_block(LinearSpec const& spec) { return spec.role.ends_with(".out") || spec.role.ends_with(".down"); }

std::int64_t slice_count(Tape const& t) {
  Cut const& cut = t.experiment.cut;
  return cut.tp_overlap == TpOverlap::chunked && cut.tp > 1 ? cut.tp_overlap_chunks : 1;
}

std::vector<DimRange> token_slices(Tape const& t, std::int64_t rows) {
  std::vector<DimRange> slices;
  for (std::int64_t i = 0, n = slice_count(t); i < n; ++i)
    if (DimRange const range = chunk_range(rows, n, i); range.size > 0) slices.push_back(range);
  return slices;
}

void emit_product(Tape& t, Product const& p, TensorRef from, std::int64_t rows, TensorRef to) {
  t.emit(OpKind::gemm, GemmShape{rows, p.outputs, p.inputs, false, p.forward, p.model_share}, p.name,
         {from, p.weight, p.bias}, {to});
}

TensorRef whole_product(Tape& t, Product const& p, TensorRef x, std::int64_t rows) {
  TensorRef const y = t.temporary(p.name, rows, p.outputs);
  emit_product(t, p, x, rows, y);
  return y;
}

TensorRef product_then_reduce(Tape& t, Product const& p, TensorRef x, std::int64_t rows, bool scatter,
                              std::string const& name) {
  std::int64_t const n = t.program.degree[Axis::tp], mine = scatter ? rows / n : rows;
  GroupId const group = id_of(GroupKind::tp);
  TensorRef const y = t.temporary(name, mine, p.outputs);
  for (DimRange const range : token_slices(t, mine)) {
    TensorRef const to = t.slice_apart(y, range);
    if (!scatter) {
      emit_product(t, p, behind(x, range.begin * p.inputs), range.size, to);
      t.emit_collective(OpKind::all_reduce, group, range.size * p.outputs, name, to, to);
      continue;
    }
    // Of each rank's rows the same slice, so that the slices scatter on their own.
    TensorRef const from = t.temporary(name + ".terms", range.size * n, p.outputs);
    for (std::int64_t r = 0; r < n; ++r)
      emit_product(t, p, behind(x, (r * mine + range.begin) * p.inputs), range.size,
                   behind(from, r * range.size * p.outputs));
    t.emit_collective(OpKind::reduce_scatter, group, range.size * n * p.outputs, name, from, to);
  }
  return y;
}

/// `whole`, when valid, receives the gathered input.
TensorRef gather_then_product(Tape& t, Product const& p, TensorRef x, std::int64_t mine, TensorRef whole,
                              std::string const& name) {
  std::int64_t const n = t.program.degree[Axis::tp];
  TensorRef const y = t.temporary(p.name, mine * n, p.outputs);
  auto const ranges = token_slices(t, mine);
  std::vector<TensorRef> gathered;
  for (DimRange const range : ranges) {
    gathered.push_back(t.temporary(name, range.size * n, p.inputs));
    t.emit_collective(OpKind::all_gather, id_of(GroupKind::tp), range.size * n * p.inputs, name,
                      behind(x, range.begin * p.inputs), gathered.back());
  }
  for (std::size_t i = 0; i < ranges.size(); ++i)
    for (std::int64_t r = 0; r < n; ++r) {
      std::int64_t const rows = ranges[i].size, at = r * mine + ranges[i].begin;
      TensorRef const from = behind(gathered[i], r * rows * p.inputs);
      emit_product(t, p, from, rows, behind(y, at * p.outputs));
      if (whole.valid()) pack(t, from, behind(whole, at * p.inputs), rows, p.inputs, name);
    }
  return y;
}

/// Backward of a weight cut by inputs: what its sum left cut by rows is gathered for dx, and kept for the weight.
void backward_of_sum(Tape& t, Value x, Value y, Product const& back, LinearSpec const& spec, LinearWeights const& w) {
  TensorRef dy = t.take_gradient(y), dx;
  std::int64_t const rows = t[x].rows;
  if (is_shard(t[y].layout[Axis::tp], sequence_dim)) {
    TensorRef const whole = t.temporary(spec.name + ".dy", rows, back.inputs);
    dx = gather_then_product(t, back, dy, rows / t.program.degree[Axis::tp], whole, spec.name + ".reduce");
    dy = whole;
  } else {
    dx = whole_product(t, back, dy, rows);
  }
  t.accumulate(x, dx);
  weight_gradients(t, spec, w, dy, t[x].ref, rows, t[x].layout);
}

/// Backward of a weight cut by outputs.
void backward_of_columns(Tape& t, Value x, Value y, Product const& back, LinearSpec const& spec,
                         LinearWeights const& w) {
  TensorRef const dy = t.take_gradient(y);
  Layout const layout = t[x].layout;
  Matrix saved = t[x].matrix();
  bool const scatters = gathers_rows(t, x, w.placement);
  // The whole input is gathered again for the weight gradient, while the products of dx run.
  if (scatters) saved = move_to(t, saved, layout, with(layout, Axis::tp, Replicate{}), spec.name + ".regather");
  t.accumulate(x, product_then_reduce(t, back, dy, saved.rows, scatters, spec.name + ".input"), layout);
  weight_gradients(t, spec, w, dy, saved.ref, saved.rows, layout);
}

}  // namespace

bool overlaps_collective(Tape& t, Value x, LinearSpec const& spec, Placement const& placement) {
  // Columns of a wider tensor: their gradient is one part of a partial sum, which is reduced as a whole.
  bool const part = t[x].ref.stride > t[x].cols;
  return slice_count(t) > 1 && !part && (is_shard(placement, 0) || (is_shard(placement, 1) && joins_block(spec)));
}

bool gathers_rows(Tape& t, Value x, Placement const& placement) {
  return is_shard(placement, 0) && is_shard(t[x].layout[Axis::tp], sequence_dim);
}

Value overlapped_linear(Tape& t, Value x, LinearSpec const& spec, LinearWeights const& w) {
  Parameter const& p = t.program.parameters[w.weight];
  bool const sums = is_shard(w.placement, 1), gathers = gathers_rows(t, x, w.placement);
  bool const adds_bias = !sums || t.program.coordinate[Axis::tp] == 0;
  Product const forward{spec.name, t.weight(w.weight), adds_bias ? t.weight(w.bias) : TensorRef{}, p.rows, p.cols,
                        true,      spec.model_share()};
  std::int64_t const rows = t[x].rows, n = t.program.degree[Axis::tp];
  Layout const layout = with(t[x].layout, Axis::tp, sums ? t.block_layout()[Axis::tp] : Placement{Shard{feature_dim}});
  bool const scatters = is_shard(layout[Axis::tp], sequence_dim);
  TensorRef const in = t[x].ref;
  TensorRef const out = sums      ? product_then_reduce(t, forward, in, rows, scatters, spec.name + ".reduce")
                        : gathers ? gather_then_product(t, forward, in, rows, {}, spec.name + ".input")
                                  : whole_product(t, forward, in, rows);
  std::int64_t const out_rows = scatters ? rows / n : gathers ? rows * n : rows;
  Value const y = t.value_of(out, spec.name, out_rows, forward.outputs, layout, spec.outputs());
  t.on_backward([=, &t] {
    Product const back{spec.name + ".dx",  forward.weight, {}, forward.inputs, forward.outputs, false,
                       forward.model_share};
    (sums ? backward_of_sum : backward_of_columns)(t, x, y, back, spec, w);
  });
  return y;
}

}  // namespace shardbench
