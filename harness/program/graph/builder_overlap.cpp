// Tensor parallelism whose products and collectives are cut in pieces along the tokens, so that the collective of one
// piece runs while the next is computed. The numbers are those of the whole product; only the order of work differs.
#include <algorithm>

#include "harness/program/graph/graph_builder.hpp"

namespace shardbench {

namespace {

constexpr auto tp_axis = static_cast<std::size_t>(Axis::tp);

}  // namespace

bool GraphBuilder::gathers_rows(Value x, Placement const& placement) const {
  return is_shard(placement, 0) && is_shard(values_[static_cast<std::size_t>(x.index)].layout[tp_axis], sequence_dim);
}

bool GraphBuilder::joins_block(LinearSpec const& spec) {
  return spec.role.ends_with(".out") || spec.role.ends_with(".down");
}

std::vector<DimRange> GraphBuilder::token_pieces(std::int64_t rows) const {
  std::vector<DimRange> pieces;
  for (std::int64_t i = 0; i < overlap_chunks_; ++i)
    if (DimRange const range = chunk_range(rows, overlap_chunks_, i); range.size > 0) pieces.push_back(range);
  return pieces;
}

TensorRef GraphBuilder::piece(TensorRef whole, DimRange rows) {
  Tensor const root = program_.tensors[static_cast<std::size_t>(whole.id)];
  TensorId const id = new_tensor(root.name + ".piece", root.role, root.dtype, rows.size, root.cols);
  Tensor& t = program_.tensors[static_cast<std::size_t>(id)];
  t.storage = whole.id;
  t.storage_offset = rows.begin * root.cols;
  t.apart = true;
  pieces_[whole.id].push_back({id, 0, 0});
  return {id, 0, 0};
}

void GraphBuilder::product(Product const& p, TensorRef from, std::int64_t rows, TensorRef to) {
  GemmShape const shape{rows, p.outputs, p.inputs, false, p.forward};
  emit(make_op(OpKind::gemm, shape, p.name, {from, {p.weight, 0, 0}, p.bias}, {to}));
}

TensorRef GraphBuilder::product_then_reduce(Product const& p, TensorRef x, std::int64_t rows, bool scatter,
                                            std::string const& name) {
  std::int64_t const n = program_.degree[tp_axis], mine = scatter ? rows / n : rows;
  std::int32_t const group = group_id("tp");
  TensorRef const y = temporary(name, mine, p.outputs);
  for (DimRange const range : token_pieces(mine)) {
    TensorRef const to = piece(y, range);
    if (!scatter) {
      product(p, {x.id, x.offset + range.begin * p.inputs, 0}, range.size, to);
      emit(make_collective(OpKind::all_reduce, group, range.size * p.outputs, program_.precision, name, to, to));
      continue;
    }
    // Of each rank's rows the same piece, so that the pieces scatter on their own.
    TensorRef const from = temporary(name + ".terms", range.size * n, p.outputs);
    for (std::int64_t r = 0; r < n; ++r)
      product(p, {x.id, x.offset + (r * mine + range.begin) * p.inputs, 0}, range.size,
              {from.id, r * range.size * p.outputs, 0});
    emit(
        make_collective(OpKind::reduce_scatter, group, range.size * n * p.outputs, program_.precision, name, from, to));
  }
  return y;
}

TensorRef GraphBuilder::gather_then_product(Product const& p, TensorRef x, std::int64_t mine, TensorRef whole,
                                            std::string const& name) {
  std::int64_t const n = program_.degree[tp_axis];
  TensorRef const y = temporary(p.name, mine * n, p.outputs);
  auto const ranges = token_pieces(mine);
  std::vector<TensorRef> gathered;
  for (DimRange const range : ranges) {
    gathered.push_back(temporary(name, range.size * n, p.inputs));
    emit(make_collective(OpKind::all_gather, group_id("tp"), range.size * n * p.inputs, program_.precision, name,
                         {x.id, x.offset + range.begin * p.inputs, 0}, gathered.back()));
  }
  for (std::size_t i = 0; i < ranges.size(); ++i)
    for (std::int64_t r = 0; r < n; ++r) {
      std::int64_t const rows = ranges[i].size, at = r * mine + ranges[i].begin;
      TensorRef const from{gathered[i].id, r * rows * p.inputs, 0};
      product(p, from, rows, {y.id, at * p.outputs, 0});
      if (whole.valid()) pack(from, rows, p.inputs, p.inputs, {whole.id, at * p.inputs, 0}, p.inputs, name);
    }
  return y;
}

Value GraphBuilder::overlapped_linear(Value x, LinearSpec const& spec, Placement const& placement, std::int32_t weight,
                                      std::int32_t bias) {
  auto const& p = program_.parameters[static_cast<std::size_t>(weight)];
  bool const rows_cut = is_shard(placement, 1), gathers = gathers_rows(x, placement);
  bool const adds_bias = bias >= 0 && (!rows_cut || program_.coordinate[tp_axis] == 0);
  Product const forward{
      spec.name,
      p.weight,
      adds_bias ? TensorRef{program_.parameters[static_cast<std::size_t>(bias)].weight, 0, 0} : TensorRef{},
      p.rows,
      p.cols,
      true};
  std::int64_t const rows = state(x).rows, n = program_.degree[tp_axis];
  Layout layout = state(x).layout;
  layout[tp_axis] = rows_cut ? block_[tp_axis] : Placement{Shard{feature_dim}};
  bool const scatters = is_shard(layout[tp_axis], sequence_dim);
  std::int64_t global = 0;
  for (auto const& s : spec.sections) global += s.padded_rows;
  TensorRef out;
  if (rows_cut)
    out = product_then_reduce(forward, state(x).ref, rows, scatters, spec.name + ".reduce");
  else if (gathers)
    out = gather_then_product(forward, state(x).ref, rows, {}, spec.name + ".input");
  else
    product(forward, state(x).ref, rows, out = temporary(spec.name, rows, p.rows));
  std::int64_t const out_rows = scatters ? rows / n : gathers ? rows * n : rows;
  Value const y = value_of(out, spec.name, out_rows, p.rows, global, layout);
  on_backward([=, this] { overlapped_backward(x, y, weight, bias, placement, spec); });
  return y;
}

void GraphBuilder::overlapped_backward(Value x, Value y, std::int32_t weight, std::int32_t bias,
                                       Placement const& placement, LinearSpec const& spec) {
  TensorRef dy = take_gradient(y), saved = state(x).ref, dx;
  auto const& p = program_.parameters[static_cast<std::size_t>(weight)];
  Product const back{spec.name + ".dx", p.weight, {}, p.cols, p.rows, false};
  std::int64_t const rows = state(x).rows, n = program_.degree[tp_axis];
  std::int64_t all_rows = rows;
  if (is_shard(placement, 1)) {
    if (is_shard(state(y).layout[tp_axis], sequence_dim)) {
      TensorRef const whole = temporary(spec.name + ".dy", rows, p.rows);
      dx = gather_then_product(back, dy, rows / n, whole, spec.name + ".reduce");
      dy = whole;
    } else {
      product(back, dy, rows, dx = temporary(spec.name + ".dx", rows, p.cols));
    }
  } else {
    bool const scatters = gathers_rows(x, placement);
    if (scatters) {
      // The whole input is gathered again for the weight gradient, while the products of dx run.
      Layout whole = state(x).layout;
      whole[tp_axis] = Replicate{};
      std::int64_t r = rows, c = state(x).cols;
      saved = move(state(x).ref, r, c, state(x).layout, whole, spec.name + ".regather");
      all_rows = r;
    }
    dx = product_then_reduce(back, dy, all_rows, scatters, spec.name + ".input");
  }
  accumulate(x, dx, state(x).layout);
  weight_gradients(dy, saved, all_rows, state(x).layout, weight, bias, placement, spec);
}

}  // namespace shardbench
