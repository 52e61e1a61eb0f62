// Operations of convolutional networks: convolutions as products over gathered columns, batch norm of each replica,
// pools, and attention over feature maps. They are cut over data only.
#include <fmt/format.h>

#include <cmath>

#include "harness/program/graph/graph_builder.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

constexpr float batch_norm_eps = 1e-3f;  // of the family's model files

}  // namespace

std::int32_t GraphBuilder::add_matrix(std::string const& name, std::int64_t rows, std::int64_t cols) {
  Parameter p;
  p.name = name;
  p.sections = {{name, rows, 0, rows}};
  p.rows = rows;
  p.cols = p.global_cols = cols;
  return add_parameter(std::move(p));
}

TensorRef GraphBuilder::weight_ref(std::int32_t parameter) const {
  if (parameter < 0) return {};
  return {program_.parameters[static_cast<std::size_t>(parameter)].weight, 0, 0};
}

TensorRef GraphBuilder::gradient_ref(std::int32_t parameter) const {
  if (parameter < 0) return {};
  return {program_.parameters[static_cast<std::size_t>(parameter)].gradient, 0, 0};
}

Value GraphBuilder::conv(Value x, ConvLayer const& layer, std::string const& label, bool input_gradient) {
  VALIDATE(state(x).cols == layer.in,
           fmt::format("{}: {} channels arrive, {} are wanted", layer.name, state(x).cols, layer.in));
  Value y = layer.groups > 1 ? depthwise_conv(x, layer, label) : dense_conv(x, layer, label, input_gradient);
  if (layer.batch_norm) y = batch_norm(y, layer.name, label + ".norm");
  return layer.activation ? silu(y, label + ".silu") : y;
}

namespace {

WindowShape window_of(ConvLayer const& layer, std::int64_t batch) {
  std::int64_t const size = layer.out_size * layer.stride;
  return {size, size, batch, layer.in, layer.kernel, layer.stride, layer.kernel / 2};
}

}  // namespace

Value GraphBuilder::dense_conv(Value x, ConvLayer const& layer, std::string const& label, bool input_gradient) {
  WindowShape const w = window_of(layer, program_.micro_batch);
  std::int64_t const rows = w.out_rows(), width = w.taps() * layer.in, outputs = layer.out;
  std::int32_t const weight = add_matrix(layer.name + ".weight", outputs, width);
  std::string const bias_name = layer.name + ".bias";
  std::int32_t const bias =
      layer.batch_norm ? -1 : add_vector(bias_name, {{bias_name, outputs, 0, outputs}}, outputs, InitKind::zeros);
  bool const direct = layer.kernel == 1 && layer.stride == 1;
  // Columns are gathered again in the backward pass: kept, they would take kernel^2 times the memory of x.
  auto const columns = [=, this] {
    if (direct) return state(x).ref;
    TensorRef const cols = temporary(label + ".columns", rows, width);
    emit(make_op(OpKind::im2col, w, label + ".columns", {state(x).ref}, {cols}));
    return cols;
  };
  Value const y = new_value(label, rows, outputs, outputs, state(x).layout);
  TensorRef const gathered = columns();
  emit(make_op(OpKind::gemm, GemmShape{rows, outputs, width, false, true}, label,
               {gathered, weight_ref(weight), weight_ref(bias)}, {state(y).ref}));
  on_backward([=, this] {
    TensorRef const dy = take_gradient(y);
    Op dw = make_op(OpKind::gemm, GemmShape{outputs, width, rows, true, false}, label + ".dw", {dy, columns(), {}},
                    {gradient_ref(weight)});
    writes_gradient(dw, weight, state(x).layout);
    emit(std::move(dw));
    if (bias >= 0) {
      Op db = make_op(OpKind::column_sum, BlockShape{rows, outputs, 1}, label + ".db", {dy}, {gradient_ref(bias)});
      writes_gradient(db, bias, state(x).layout);
      emit(std::move(db));
    }
    if (!input_gradient) return;
    TensorRef const dcols = temporary(label + ".dx", rows, width);
    emit(make_op(OpKind::gemm, GemmShape{rows, width, outputs, false, false}, label + ".dx",
                 {dy, weight_ref(weight), {}}, {dcols}));
    TensorRef dx = dcols;
    if (!direct) {
      dx = temporary(label + ".image_gradient", w.rows(), layer.in);
      emit(make_op(OpKind::col2im, w, label + ".image_gradient", {dcols}, {dx}));
    }
    accumulate(x, dx, state(x).layout);
  });
  return y;
}

Value GraphBuilder::depthwise_conv(Value x, ConvLayer const& layer, std::string const& label) {
  VALIDATE(layer.groups == layer.in && layer.in == layer.out && layer.batch_norm,
           layer.name + ": grouped convolutions are depthwise and followed by a norm");
  WindowShape const w = window_of(layer, program_.micro_batch);
  std::int32_t const weight = add_matrix(layer.name + ".weight", w.taps(), layer.in);
  Value const y = new_value(label, w.out_rows(), layer.out, layer.out, state(x).layout);
  emit(make_op(OpKind::depthwise_forward, w, label, {state(x).ref, weight_ref(weight)}, {state(y).ref}));
  on_backward([=, this] {
    TensorRef const dy = take_gradient(y);
    TensorRef const dx = temporary(label + ".dx", w.rows(), layer.in);
    Op op = make_op(OpKind::depthwise_backward, w, label, {dy, state(x).ref, weight_ref(weight)},
                    {dx, gradient_ref(weight)});
    writes_gradient(op, weight, state(x).layout);
    op.part = BackwardPart::input;
    emit(std::move(op));
    accumulate(x, dx, state(x).layout);
  });
  return y;
}

Value GraphBuilder::batch_norm(Value x, std::string const& name, std::string const& label) {
  std::int64_t const rows = state(x).rows, cols = state(x).cols;
  std::string const scale = name + ".norm.weight", shift = name + ".norm.bias";
  std::int32_t const weight = add_vector(scale, {{scale, cols, 0, cols}}, cols, InitKind::ones);
  std::int32_t const bias = add_vector(shift, {{shift, cols, 0, cols}}, cols, InitKind::zeros);
  BatchNormShape const shape{rows, cols, batch_norm_eps};
  auto const floats = [&](char const* what, std::int64_t count) {
    return TensorRef{new_tensor(qualified(label + what), TensorRole::temporary, Dtype::f32, count, cols), 0, 0};
  };
  TensorRef const mean = floats(".mean", 1), rstd = floats(".rstd", 1), sums = floats(".sums", 2);
  Value const y = new_value(label, rows, cols, cols, state(x).layout);
  emit(make_op(OpKind::batch_norm_forward, shape, label, {state(x).ref, weight_ref(weight), weight_ref(bias)},
               {state(y).ref, mean, rstd}));
  on_backward([=, this] {
    TensorRef const dy = take_gradient(y);
    TensorRef const dx = temporary(label + ".dx", rows, cols);
    Op op = make_op(OpKind::batch_norm_backward, shape, label, {dy, state(x).ref, weight_ref(weight), mean, rstd},
                    {dx, gradient_ref(weight), gradient_ref(bias), sums});
    writes_gradient(op, weight, state(x).layout);
    Op shadow = op;  // both gradients come from one kernel
    writes_gradient(shadow, bias, state(x).layout);
    op.part = BackwardPart::input;
    emit(std::move(op));
    accumulate(x, dx, state(x).layout);
  });
  return y;
}

Value GraphBuilder::silu(Value x, std::string const& label) {
  std::int64_t const rows = state(x).rows, cols = state(x).cols;
  ActivationShape const shape{ActivationKind::silu, false, rows, cols};
  Value const y = new_value(label, rows, cols, cols, state(x).layout);
  emit(make_op(OpKind::activation_forward, shape, label, {state(x).ref}, {state(y).ref}));
  on_backward([=, this] {
    TensorRef const dy = take_gradient(y);
    TensorRef const dx = temporary(label + ".dx", rows, cols);
    emit(make_op(OpKind::activation_backward, shape, label, {dy, state(x).ref}, {dx}));
    accumulate(x, dx, state(x).layout);
  });
  return y;
}

Value GraphBuilder::max_pool(Value x, std::int64_t size, std::int64_t kernel, std::string const& label) {
  WindowShape const w{size, size, program_.micro_batch, state(x).cols, kernel, 1, kernel / 2};
  Value const y = new_value(label, w.out_rows(), state(x).cols, state(x).cols, state(x).layout);
  TensorRef const taps{
      new_tensor(qualified(label + ".taps"), TensorRole::temporary, Dtype::u8, w.out_rows(), w.channels), 0, 0};
  emit(make_op(OpKind::max_pool_forward, w, label, {state(x).ref}, {state(y).ref, taps}));
  on_backward([=, this] {
    TensorRef const dy = take_gradient(y);
    TensorRef const dx = temporary(label + ".dx", w.rows(), w.channels);
    emit(make_op(OpKind::max_pool_backward, w, label, {dy, taps}, {dx}));
    accumulate(x, dx, state(x).layout);
  });
  return y;
}

Value GraphBuilder::upsample(Value x, std::int64_t size, std::int64_t factor, std::string const& label) {
  std::int64_t const rows = state(x).rows, cols = state(x).cols;
  UpsampleShape const shape{size, size, program_.micro_batch, cols, factor};
  Value const y = new_value(label, rows * factor * factor, cols, cols, state(x).layout);
  emit(make_op(OpKind::upsample_forward, shape, label, {state(x).ref}, {state(y).ref}));
  on_backward([=, this] {
    TensorRef const dy = take_gradient(y);
    TensorRef const dx = temporary(label + ".dx", rows, cols);
    emit(make_op(OpKind::upsample_backward, shape, label, {dy}, {dx}));
    accumulate(x, dx, state(x).layout);
  });
  return y;
}

Value GraphBuilder::concat(std::vector<Value> const& parts, std::string const& label) {
  std::int64_t const rows = state(parts.front()).rows;
  std::int64_t cols = 0, at = 0;
  for (Value const& part : parts) cols += state(part).cols;
  Value const y = new_value(label, rows, cols, cols, state(parts.front()).layout);
  for (Value const& part : parts) {
    pack(state(part).ref, rows, state(part).cols, state(part).cols, {state(y).ref.id, at, 0}, cols, label);
    at += state(part).cols;
  }
  on_backward([=, this] {
    TensorRef const dy = take_gradient(y);
    std::int64_t from = 0;
    for (Value const& part : parts) {
      TensorRef const dx = temporary(label + ".dx", rows, state(part).cols);
      pack({dy.id, dy.offset + from, 0}, rows, state(part).cols, cols, dx, state(part).cols, label);
      from += state(part).cols;
      accumulate(part, {dx.id, 0, 0}, state(part).layout);
    }
  });
  return y;
}

std::vector<Value> GraphBuilder::split(Value x, std::vector<std::int64_t> const& widths, std::string const& label) {
  std::int64_t const rows = state(x).rows, cols = state(x).cols;
  std::vector<Value> parts;
  std::int64_t at = 0;
  for (std::int64_t const width : widths) {
    Value const part = new_value(label, rows, width, width, state(x).layout);
    pack({state(x).ref.id, state(x).ref.offset + at, 0}, rows, width, cols, {state(part).ref.id, 0, 0}, width, label);
    parts.push_back(part);
    at += width;
  }
  VALIDATE(at == cols, fmt::format("{}: parts of {} columns, {} there", label, at, cols));
  on_backward([=, this] {
    TensorRef const dx = temporary(label + ".dx", rows, cols);
    std::int64_t to = 0;
    for (Value const& part : parts) {
      TensorRef const dy = take_gradient(part);
      VALIDATE(dy.valid(), label + ": a part that nobody reads");
      pack(dy, rows, state(part).cols, state(part).cols, {dx.id, to, 0}, cols, label);
      to += state(part).cols;
    }
    accumulate(x, dx, state(x).layout);
  });
  return parts;
}

Value GraphBuilder::attend(Value qk, Value v, std::int64_t heads, std::string const& label) {
  AttentionOpShape s;
  s.seq_q = s.seq_k = state(v).rows / program_.micro_batch;
  s.batch = program_.micro_batch;
  s.heads = s.kv_heads = heads;
  s.head_dim = state(qk).cols / 2 / heads;
  s.value_dim = state(v).cols / heads;
  s.scale = 1.0f / std::sqrt(static_cast<float>(s.head_dim));
  s.mask = AttentionMask::none;
  s.full_pairs = s.visible_pairs = static_cast<double>(s.seq_q) * static_cast<double>(s.seq_k);
  std::int64_t const rows = state(v).rows, cols = state(v).cols, stride = state(qk).cols;
  auto const half = [stride](TensorRef whole, bool keys) {
    return TensorRef{whole.id, whole.offset + (keys ? stride / 2 : 0), stride};
  };
  TensorRef const values{state(v).ref.id, state(v).ref.offset, cols}, none{program_.inputs.positions, 0, 0};
  Value const y = new_value(label, rows, cols, cols, state(v).layout);
  TensorRef const lse{
      new_tensor(qualified(label + ".lse"), TensorRole::temporary, Dtype::f32, s.batch * s.heads, s.seq_q), 0, 0};
  TensorRef const q = half(state(qk).ref, false), k = half(state(qk).ref, true);
  emit(make_op(OpKind::attention_forward, s, label, {q, k, values, none}, {state(y).ref, lse}));
  on_backward([=, this] {
    TensorRef const dy = take_gradient(y);
    TensorRef const dqk = temporary(label + ".dqk", rows, stride), dv = temporary(label + ".dv", rows, cols);
    emit(make_op(OpKind::attention_backward, s, label, {q, k, values, state(y).ref, dy, lse, none},
                 {half(dqk, false), half(dqk, true), dv}));
    accumulate(qk, dqk, state(qk).layout);
    accumulate(v, dv, state(v).layout);
  });
  return y;
}

void GraphBuilder::draw_gradient(Value x, std::string const& name) {
  std::int64_t const positions = state(x).rows / program_.micro_batch;
  auto const outputs = static_cast<double>(positions * program_.global_batch);
  TensorId const id =
      drawn_buffer(name + ".gradient", name, state(x).rows, state(x).cols, static_cast<float>(1 / outputs));
  state(x).gradient = Gradient{{id, 0, 0}, state(x).layout};
}

}  // namespace shardbench
