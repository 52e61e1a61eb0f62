// The operations of a transformer: each states where its operands must lie, emits its forward op and tapes its
// backward.
#include <fmt/format.h>

#include <algorithm>

#include "harness/program/graph/graph_builder.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

constexpr auto tp_axis = static_cast<std::size_t>(Axis::tp);

}  // namespace

Value GraphBuilder::chunk_input() {
  Chunk& chunk = program_.chunks[static_cast<std::size_t>(chunk_)];
  std::int64_t rows = program_.local_seq * program_.micro_batch;
  if (is_shard(block_[tp_axis], sequence_dim)) rows /= program_.degree[tp_axis];
  if (chunk.input == no_tensor)
    chunk.input = new_tensor(fmt::format("chunk{}.input", chunk_), TensorRole::activation, program_.precision, rows,
                             model_.hidden);
  Value const x = value_of({chunk.input, 0, 0}, "input", rows, model_.hidden, model_.hidden, block_);
  on_backward([this, x] {
    TensorRef const g = take_gradient(x);
    Chunk& c = program_.chunks[static_cast<std::size_t>(chunk_)];
    // The gradient leaves the chunk under its own name: what is sent may not be an alias of something still in use.
    if (c.input_gradient == no_tensor)
      c.input_gradient = new_tensor(fmt::format("chunk{}.input_gradient", chunk_), TensorRole::activation,
                                    program_.precision, state(x).rows, state(x).cols);
    emit(make_op(OpKind::copy_block, BlockShape{state(x).rows, state(x).cols, 1}, "input.gradient", {g},
                 {{c.input_gradient, 0, 0}}));
  });
  return x;
}

void GraphBuilder::chunk_output(Value x) {
  if (streams_ > 1) x = sum_streams(x);
  Chunk& chunk = program_.chunks[static_cast<std::size_t>(chunk_)];
  auto const rows = state(x).rows, cols = state(x).cols;
  if (chunk.output == no_tensor)
    chunk.output =
        new_tensor(fmt::format("chunk{}.output", chunk_), TensorRole::activation, program_.precision, rows, cols);
  if (chunk.output_gradient == no_tensor)
    chunk.output_gradient = new_tensor(fmt::format("chunk{}.output_gradient", chunk_), TensorRole::activation,
                                       program_.precision, rows, cols);
  Layout target{};
  for (std::size_t a = 0; a < axis_count; ++a) target[a] = gradient_placement(state(x).layout[a]);
  state(x).gradient = Gradient{{chunk.output_gradient, 0, 0}, target};
  Op const* const last = forward_.empty() ? nullptr : &forward_.back();
  if (last && last->stream != StreamId::compute && last->inputs[0].id != last->outputs[0].id) {
    // Compute has to wait for a collective that ends a chunk, or what the collective reads would never be free.
    emit(make_op(OpKind::copy_block, BlockShape{rows, cols, 1}, "output", {state(x).ref}, {{chunk.output, 0, 0}}));
    return;
  }
  // The op that made x writes the chunk's output itself.
  TensorId const old = state(x).ref.id;
  for (Op& op : forward_)
    for (auto* refs : {&op.inputs, &op.outputs})
      for (TensorRef& ref : *refs)
        if (ref.id == old) ref.id = chunk.output;
  for (auto& v : values_)
    if (v.ref.id == old) v.ref.id = chunk.output;
}

Value GraphBuilder::embedding(std::string const& name, std::string const& role, std::int64_t rows,
                              std::int64_t padded_rows, TensorId ids) {
  Placement const placement = program_.degree[tp_axis] > 1 ? strategy_.weight(role) : Placement{Replicate{}};
  LinearSpec const spec{name, role, {{"", rows, padded_rows, 0, false}}, model_.hidden, false, -1};
  std::int32_t weight = parameter_index(name + ".weight");
  if (weight < 0) {
    Parameter table = cut_weight(spec, placement);
    table.name += ".weight";
    table.sections[0].key += ".weight";
    table.tied = model_.tied_embeddings || experiment_.mtp > 0;
    table.copy = !program_.chunks[static_cast<std::size_t>(chunk_)].has_embedding;
    weight = add_parameter(std::move(table));
  }
  auto const& p = program_.parameters[static_cast<std::size_t>(weight)];
  Layout layout = block_;
  layout[tp_axis] = Replicate{};
  if (is_shard(placement, 0)) layout[tp_axis] = Partial{};
  if (is_shard(placement, 1)) layout[tp_axis] = Shard{feature_dim};
  std::int64_t const tokens = program_.local_seq * program_.micro_batch;
  Value const y = new_value(name, tokens, p.cols, model_.hidden, layout);
  EmbeddingShape const shape{tokens, p.rows, p.cols, p.sections[0].row_begin,
                             static_cast<float>(model_.embedding_scale)};
  emit(make_op(OpKind::embedding_forward, shape, name, {{ids, 0, 0}, {p.weight, 0, 0}}, {state(y).ref}));
  on_backward([this, y, weight, shape, ids, name] {
    TensorRef const dy = take_gradient(y);
    auto const& q = program_.parameters[static_cast<std::size_t>(weight)];
    Op op = make_op(OpKind::embedding_backward, shape, name, {{ids, 0, 0}, dy}, {{q.gradient, 0, 0}});
    writes_gradient(op, weight, state(y).layout);
    emit(std::move(op));
  });
  return y;
}

Value GraphBuilder::add_positions(Value x, std::string const& name, std::int64_t rows) {
  LinearSpec const spec{name, "embedding.position", {{"", rows, rows, 0, false}}, model_.hidden, false, -1};
  Parameter table = cut_weight(spec, Replicate{});
  table.name += ".weight";
  table.sections[0].key += ".weight";
  std::int32_t const weight = add_parameter(std::move(table));
  // A rank that holds a slice of the sequence reads its slice of the positions.
  std::int64_t const tokens = state(x).rows;
  TensorRef const ids{program_.inputs.token_positions,
                      is_shard(state(x).layout[tp_axis], sequence_dim) ? program_.coordinate[tp_axis] * tokens : 0, 0};
  EmbeddingShape const shape{tokens, rows, model_.hidden, 0};
  Op op = make_op(OpKind::embedding_forward, shape, name,
                  {ids, {program_.parameters[static_cast<std::size_t>(weight)].weight, 0, 0}}, {state(x).ref});
  op.always_accumulate = true;
  emit(std::move(op));
  on_backward([this, x, weight, shape, ids, name] {
    TensorRef const dy = take_gradient(x);
    Op back = make_op(OpKind::embedding_backward, shape, name, {ids, dy},
                      {{program_.parameters[static_cast<std::size_t>(weight)].gradient, 0, 0}});
    writes_gradient(back, weight, state(x).layout);
    emit(std::move(back));
  });
  return x;
}

Value GraphBuilder::norm(Value x, Value pending, std::string const& name, Value* sum) {
  // A norm reads whole rows.
  x = all_columns(x);
  bool const layer_norm = model_.norm == NormKind::layer_norm;
  std::int64_t const cols = state(x).cols;
  std::string const full = qualified(name);
  InitKind const init = model_.norm_weight_offset > 0 ? InitKind::zeros : InitKind::ones;
  std::int32_t const weight = add_vector(full + ".weight", {{full + ".weight", cols, 0, cols}}, cols, init);
  std::int32_t const bias = layer_norm && model_.norm_bias
                                ? add_vector(full + ".bias", {{full + ".bias", cols, 0, cols}}, cols, InitKind::zeros)
                                : -1;
  std::int64_t const rows = state(x).rows;
  Layout const layout = state(x).layout;
  if (pending.valid()) pending = redistribute(pending, layout, state(pending).name + ".reduce");
  Value const y = new_value(name, rows, cols, cols, layout);
  TensorRef const mean = layer_norm
                             ? TensorRef{new_tensor(full + ".mean", TensorRole::temporary, Dtype::f32, rows, 1), 0, 0}
                             : TensorRef{};
  TensorRef const rstd{new_tensor(full + ".rstd", TensorRole::temporary, Dtype::f32, rows, 1), 0, 0};
  NormShape const shape{model_.norm, rows, cols, model_.norm_eps, model_.norm_weight_offset, pending.valid()};
  auto const weight_ref = [this](std::int32_t p) {
    return p < 0 ? TensorRef{} : TensorRef{program_.parameters[static_cast<std::size_t>(p)].weight, 0, 0};
  };
  // The gradient of private copies is a term of theirs.
  Layout gradient_layout = layout;
  for (Placement& placement : gradient_layout) placement = gradient_placement(placement);
  Value stream = x;
  if (pending.valid()) stream = new_value(name + ".residual", rows, cols, cols, layout);
  emit(make_op(OpKind::norm_forward, shape, name,
               {state(x).ref, pending.valid() ? state(pending).ref : TensorRef{}, weight_ref(weight), weight_ref(bias)},
               {state(y).ref, mean, rstd, pending.valid() ? state(stream).ref : TensorRef{}}));
  if (sum) *sum = stream;
  on_backward([=, this] {
    TensorRef const dy = take_gradient(y);
    TensorRef const dsum =
        pending.valid() ? take_gradient(stream) : (state(stream).gradient ? take_gradient(stream) : TensorRef{});
    TensorRef const dx{new_tensor(full + ".dx", TensorRole::temporary, program_.precision, rows, cols), 0, 0};
    auto const gradient_ref = [this](std::int32_t p) {
      return p < 0 ? TensorRef{} : TensorRef{program_.parameters[static_cast<std::size_t>(p)].gradient, 0, 0};
    };
    NormShape back = shape;
    back.residual = dsum.valid();
    Op op = make_op(OpKind::norm_backward, back, name, {dy, state(stream).ref, weight_ref(weight), mean, rstd, dsum},
                    {dx, gradient_ref(weight), gradient_ref(bias)});
    writes_gradient(op, weight, layout);
    if (bias >= 0) {
      Op shadow = op;  // the bias gradient follows the weight's in the same kernel
      writes_gradient(shadow, bias, layout);
    }
    op.part = BackwardPart::input;  // dx comes from the same pass over the data
    emit(std::move(op));
    state(stream).gradient.reset();
    if (pending.valid()) {
      state(x).gradient.reset();
      accumulate(pending, dx, gradient_layout);
    }
    state(x).gradient = Gradient{dx, gradient_layout};
  });
  return y;
}

std::pair<std::int32_t, std::int32_t> GraphBuilder::linear_weights(LinearSpec const& spec, Placement const& placement) {
  std::int32_t weight = spec.shared_weight, bias = -1;
  if (weight < 0) {
    Parameter cut = cut_weight(spec, placement);
    std::vector<ParameterSection> const sections = cut.sections;
    std::int64_t const rows = cut.rows;
    std::string const name = cut.name;
    cut.name += ".weight";
    for (auto& s : cut.sections) s.key += ".weight";
    // A head that reads the embedding's weight from another stage holds a copy of it.
    cut.tied = cut.copy = spec.role == "embedding.word";
    weight = add_parameter(std::move(cut));
    if (spec.bias) {
      auto bias_sections = sections;
      for (auto& s : bias_sections) {
        s.key += ".bias";
        if (is_shard(placement, 1)) s.tp_copies = 0;
      }
      bias = add_vector(name + ".bias", bias_sections, rows, InitKind::zeros);
    }
  }
  return {weight, bias};
}

Value GraphBuilder::linear(Value x, LinearSpec const& spec) {
  Placement placement = Replicate{};
  if (program_.degree[tp_axis] > 1) placement = strategy_.weight(spec.role);
  bool const input_cut = is_shard(streams_ > 1 ? strategy_.weight(spec.role) : placement, 1);
  if (private_block()) check_private_cut(spec, state(x).layout);
  // An uncut table that is the head, too: as an embedding it sees all rows, and its two gradients must be of a kind.
  if (spec.shared_weight >= 0 && !is_shard(placement)) x = all_rows(x);
  if (streams_ > 1 && input_cut) x = own_blocks(x, spec.name + ".input");
  Layout need = state(x).layout;
  if ((is_shard(placement, 0) && !is_private(need[tp_axis])) || is_partial(need[tp_axis]) ||
      (!is_shard(placement) && is_shard(need[tp_axis], feature_dim)))
    need[tp_axis] = Replicate{};
  if (is_shard(placement, 1)) need[tp_axis] = Shard{feature_dim};
  // Columns of a wider tensor: their gradient is one part of a partial sum, which is reduced as a whole.
  bool const columns = state(x).ref.stride > state(x).cols;
  bool const chunked =
      overlap_chunks_ > 1 && !columns && (is_shard(placement, 0) || (is_shard(placement, 1) && joins_block(spec)));
  auto const weights = linear_weights(spec, placement);              // first: it is what names an impossible cut
  std::int32_t const weight = weights.first, bias = weights.second;  // clang 14 captures no structured binding
  // Where the gather is cut in pieces, the pieces are gathered between the products.
  if (!chunked || !gathers_rows(x, placement)) x = redistribute(x, need, spec.name + ".input");
  if (chunked) return overlapped_linear(x, spec, placement, weight, bias);
  auto const& p = program_.parameters[static_cast<std::size_t>(weight)];
  Layout layout = need;
  if (is_shard(placement, 0)) layout[tp_axis] = Shard{feature_dim};
  if (is_shard(placement, 1)) layout[tp_axis] = Partial{};
  std::int64_t global = 0;
  for (auto const& s : spec.sections) global += s.padded_rows;
  Value const y = new_value(spec.name, state(x).rows, p.rows, global, layout);
  GemmShape const shape{state(x).rows, p.rows, p.cols, false, true};
  // The bias is a term of the sum, so where the sum is spread over ranks one of them adds it. Private channels never
  // see the whole sum: each rank adds it there, when the branch joins the stream.
  bool const late = private_block() && input_cut;
  if (late) state(y).late_bias = bias;
  bool const adds_bias = bias >= 0 && !late && (!is_shard(placement, 1) || program_.coordinate[tp_axis] == 0);
  TensorRef const bias_ref =
      adds_bias ? TensorRef{program_.parameters[static_cast<std::size_t>(bias)].weight, 0, 0} : TensorRef{};
  emit(make_op(OpKind::gemm, shape, spec.name, {state(x).ref, {p.weight, 0, 0}, bias_ref}, {state(y).ref}));
  on_backward([=, this] { linear_backward(x, y, weight, late ? -1 : bias, placement, spec); });
  return streams_ > 1 && input_cut ? sync_streams(y, spec.name + ".reduce") : y;
}

void GraphBuilder::linear_backward(Value x, Value y, std::int32_t weight, std::int32_t bias, Placement const& placement,
                                   LinearSpec const& spec) {
  TensorRef const dy = take_gradient(y);
  auto const& p = program_.parameters[static_cast<std::size_t>(weight)];
  TensorId const weight_tensor = p.weight;
  std::int64_t const rows = state(x).rows, outputs = p.rows, inputs = p.cols;
  TensorRef saved = state(x).ref;
  Value const source = state(x).gathered_from;
  if (source.valid() && is_shard(state(source).layout[tp_axis], sequence_dim)) {
    // Keeping the sequence-cut input and gathering it again costs a collective and saves tp - 1 parts of memory.
    std::int64_t r = state(source).rows, c = state(source).cols;
    saved = move(state(source).ref, r, c, state(source).layout, state(x).layout, spec.name + ".regather");
  }
  if (spec.input_gradient) {
    TensorRef const dx{
        new_tensor(qualified(spec.name + ".dx"), TensorRole::temporary, program_.precision, rows, inputs), 0, 0};
    emit(make_op(OpKind::gemm, GemmShape{rows, inputs, outputs, false, false}, spec.name + ".dx",
                 {dy, {weight_tensor, 0, 0}, {}}, {dx}));
    Layout layout = state(x).layout;
    if (is_shard(placement, 0)) layout[tp_axis] = Partial{};
    accumulate(x, dx, layout);
  }
  weight_gradients(dy, saved, rows, state(x).layout, weight, bias, placement, spec);
}

void GraphBuilder::weight_gradients(TensorRef dy, TensorRef saved, std::int64_t rows, Layout rows_layout,
                                    std::int32_t weight, std::int32_t bias, Placement const& placement,
                                    LinearSpec const& spec) {
  auto const& p = program_.parameters[static_cast<std::size_t>(weight)];
  TensorId const gradient_tensor = p.gradient;
  std::int64_t const outputs = p.rows, inputs = p.cols;
  Op dw = make_op(OpKind::gemm, GemmShape{outputs, inputs, rows, true, false}, spec.name + ".dw", {dy, saved, {}},
                  {{gradient_tensor, 0, 0}});
  // Each rank has a part of its own of a cut weight, whatever its rows came from.
  if (is_shard(placement)) rows_layout[tp_axis] = Replicate{};
  writes_gradient(dw, weight, rows_layout);
  emit(std::move(dw));
  if (bias >= 0) {
    TensorId const bias_gradient = program_.parameters[static_cast<std::size_t>(bias)].gradient;
    Op db = make_op(OpKind::column_sum, BlockShape{rows, outputs, 1}, spec.name + ".db", {dy}, {{bias_gradient, 0, 0}});
    writes_gradient(db, bias, rows_layout);
    emit(std::move(db));
  }
  reduce_replicated_sections(weight, placement, spec);
  if (bias >= 0) {
    LinearSpec named = spec;
    named.name += ".bias";
    reduce_replicated_sections(bias, placement, named);
  }
}

Value GraphBuilder::whole(Value x) {
  Layout layout = state(x).layout;
  if (!is_partial(layout[tp_axis])) return x;
  layout[tp_axis] = Replicate{};
  return redistribute(x, layout, state(x).name + ".reduce");
}

Value GraphBuilder::all_rows(Value x) {
  Layout layout = state(x).layout;
  if (!is_shard(layout[tp_axis], sequence_dim)) return whole(x);
  layout[tp_axis] = Replicate{};
  return redistribute(x, layout, state(x).name + ".gather");
}

Value GraphBuilder::all_columns(Value x) {
  Layout layout = state(x).layout;
  if (!is_shard(layout[tp_axis], feature_dim)) return whole(x);
  layout[tp_axis] = Replicate{};
  return redistribute(x, layout, state(x).name + ".gather");
}

Value GraphBuilder::activation(Value up, std::int64_t columns) {
  up = whole(up);
  std::int64_t const rows = state(up).rows, cols = model_.gated_mlp ? state(up).cols / 2 : state(up).cols;
  Value const y = new_value("mlp.activation", rows, cols, columns, state(up).layout);
  ActivationShape const shape{model_.activation, model_.gated_mlp, rows, cols};
  emit(make_op(OpKind::activation_forward, shape, "mlp.activation", {state(up).ref}, {state(y).ref}));
  on_backward([=, this] {
    TensorRef const dy = take_gradient(y);
    TensorRef const dx{
        new_tensor(qualified("mlp.activation.dx"), TensorRole::temporary, program_.precision, rows, state(up).cols), 0,
        0};
    emit(make_op(OpKind::activation_backward, shape, "mlp.activation", {dy, state(up).ref}, {dx}));
    accumulate(up, dx, state(up).layout);
  });
  return y;
}

Value GraphBuilder::add(Value a, Value b) {
  b = redistribute(b, state(a).layout, state(b).name + ".reduce");
  Value const y = new_value("residual", state(a).rows, state(a).cols, state(a).global_cols, state(a).layout);
  emit(make_op(OpKind::add, BlockShape{state(a).rows, state(a).cols, 1}, "residual", {state(a).ref, state(b).ref},
               {state(y).ref}));
  on_backward([=, this] {
    TensorRef const dy = take_gradient(y);
    accumulate(a, dy, state(y).gradient->layout);
    accumulate(b, dy, state(y).gradient->layout);
  });
  return y;
}

void GraphBuilder::loss(Value logits, std::int64_t first_column, std::int64_t targets_of_sample, LossTerm const& term) {
  if (streams_ > 1) logits = select_blocks(logits, term.name + ".streams");
  // Targets and loss are of the whole sequence: where an uncut head left rows cut, they are gathered, and the gradient,
  // the same on every rank, is sliced again.
  logits = all_rows(logits);
  std::int64_t const tokens = state(logits).rows, columns = state(logits).cols;
  float const scale = static_cast<float>(term.weight / static_cast<double>(program_.global_batch * targets_of_sample));
  std::string const name = term.name;
  CrossEntropyOpShape const shape{tokens, columns, first_column, program_.vocab, scale, model_.logit_softcap};
  bool const cut = is_shard(state(logits).layout[tp_axis], feature_dim);
  TensorRef const maximum{new_tensor(name + ".maximum", TensorRole::temporary, Dtype::f32, tokens, 1), 0, 0};
  TensorRef const sums{new_tensor(name + ".sums", TensorRole::temporary, Dtype::f32, 2, tokens), 0, 0};
  TensorRef const in = state(logits).ref, targets{term.targets, 0, 0};
  emit(make_op(OpKind::cross_entropy_max, shape, name + ".max", {in, targets}, {maximum}));
  if (cut) {
    Op op = make_collective(OpKind::all_reduce, group_id("tp"), tokens, Dtype::f32, name + ".max", maximum, maximum);
    std::get<CollectiveShape>(op.shape).reduce = PartialOp::max;
    emit(std::move(op));
  }
  emit(make_op(OpKind::cross_entropy_sum, shape, name + ".sum", {in, targets, maximum}, {sums}));
  if (cut) emit(make_collective(OpKind::all_reduce, group_id("tp"), 2 * tokens, Dtype::f32, name + ".sum", sums, sums));
  Op total = make_op(OpKind::cross_entropy_loss, shape, name, {in, targets, sums}, {{program_.loss, 0, 0}});
  total.accumulate = !term.adds;
  total.always_accumulate = term.adds;
  emit(std::move(total));
  on_backward([=, this] {
    // In place: nobody reads the logits again.
    emit(make_op(OpKind::cross_entropy_backward, shape, name, {in, targets, maximum, sums}, {in}));
    accumulate(logits, in, state(logits).layout);
  });
}

}  // namespace shardbench
