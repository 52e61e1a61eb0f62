// Convolutions as products over gathered columns, batch norm, pools, and attention over feature maps.
#include "harness/program/graph/convolution.hpp"

#include <fmt/format.h>

#include <cmath>

#include "harness/program/graph/linear.hpp"
#include "harness/program/graph/parameters.hpp"
#include "harness/program/graph/redistribute.hpp"
#include "harness/program/graph/unary.hpp"
#include "harness/program/graph/vision.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

constexpr float batch_norm_eps = 1e-3f;  // of the family's model files

WindowShape window_of(ConvLayer const& layer, std::int64_t batch) {
  std::int64_t const size = layer.out_size * layer.stride;
  return {size, size, batch, layer.in, layer.kernel, layer.stride, layer.kernel / 2};
}

Value dense_conv(Tape& t, Value x, ConvLayer const& layer, std::string const& label, bool input_gradient) {
  WindowShape const w = window_of(layer, t.program.micro_batch);
  std::int64_t const rows = w.out_rows(), width = w.taps() * layer.in, outputs = layer.out;
  ParameterId const weight = add_uncut(t, layer.name + ".weight", outputs, width);
  ParameterId const bias =
      layer.batch_norm ? ParameterId{} : add_uncut(t, layer.name + ".bias", outputs, 1, InitKind::zeros);
  bool const direct = layer.kernel == 1 && layer.stride == 1;
  // Columns are gathered again in the backward pass: kept, they would take kernel^2 times the memory of x.
  auto const gathered_columns = [=, &t] {
    if (direct) return t[x].ref;
    TensorRef const cols = t.temporary(label + ".columns", rows, width);
    t.emit(OpKind::im2col, w, label + ".columns", {t[x].ref}, {cols});
    return cols;
  };
  Layout const layout = t[x].layout;
  Value const y = t.value(label, rows, outputs, layout);
  TensorRef const gathered = gathered_columns();
  t.emit(OpKind::gemm, GemmShape{rows, outputs, width, false, true}, label,
         {gathered, t.weight(weight), t.weight(bias)}, {t[y].ref});
  t.on_backward(y, [=, &t](TensorRef dy) {
    weight_gradients(t, {label, {}, {}}, {weight, bias}, dy, gathered_columns(), rows, layout);
    if (!input_gradient) return;
    TensorRef const dcols = t.temporary(label + ".dx", rows, width);
    t.emit(OpKind::gemm, GemmShape{rows, width, outputs}, label + ".dx", {dy, t.weight(weight), {}}, {dcols});
    if (direct) return t.accumulate(x, dcols, layout);
    TensorRef const dx = t.temporary(label + ".image_gradient", w.rows(), layer.in);
    t.emit(OpKind::col2im, w, label + ".image_gradient", {dcols}, {dx});
    t.accumulate(x, dx, layout);
  });
  return y;
}

Value depthwise_conv(Tape& t, Value x, ConvLayer const& layer, std::string const& label) {
  VALIDATE(layer.groups == layer.in && layer.in == layer.out && layer.batch_norm,
           layer.name + ": grouped convolutions are depthwise and followed by a norm");
  WindowShape const w = window_of(layer, t.program.micro_batch);
  ParameterId const weight = add_uncut(t, layer.name + ".weight", w.taps(), layer.in);
  Value const y = t.value(label, w.out_rows(), layer.out, t[x].layout);
  t.emit(OpKind::depthwise_forward, w, label, {t[x].ref, t.weight(weight)}, {t[y].ref});
  t.on_backward(y, [=, &t](TensorRef dy) {
    TensorRef const dx = t.temporary(label + ".dx", w.rows(), layer.in);
    Op& op = t.emit(OpKind::depthwise_backward, w, label, {dy, t[x].ref, t.weight(weight)}, {dx, t.gradient(weight)});
    t.writes_gradient(op, weight, t[x].layout);
    op.part = BackwardPart::input;
    t.accumulate(x, dx);
  });
  return y;
}

Value batch_norm(Tape& t, Value x, std::string const& name, std::string const& label) {
  std::int64_t const rows = t[x].rows, cols = t[x].cols;
  ParameterId const weight = add_uncut(t, name + ".norm.weight", cols, 1, InitKind::ones);
  ParameterId const bias = add_uncut(t, name + ".norm.bias", cols, 1, InitKind::zeros);
  BatchNormShape const shape{rows, cols, batch_norm_eps};
  TensorRef const mean = t.temporary(label + ".mean", Dtype::f32, 1, cols),
                  rstd = t.temporary(label + ".rstd", Dtype::f32, 1, cols),
                  sums = t.temporary(label + ".sums", Dtype::f32, 2, cols);
  Value const y = t.value(label, rows, cols, t[x].layout);
  t.emit(OpKind::batch_norm_forward, shape, label, {t[x].ref, t.weight(weight), t.weight(bias)},
         {t[y].ref, mean, rstd});
  t.on_backward(y, [=, &t](TensorRef dy) {
    TensorRef const dx = t.temporary(label + ".dx", rows, cols);
    Op& op = t.emit(OpKind::batch_norm_backward, shape, label, {dy, t[x].ref, t.weight(weight), mean, rstd},
                    {dx, t.gradient(weight), t.gradient(bias), sums});
    for (ParameterId const parameter : {weight, bias}) t.writes_gradient(op, parameter, t[x].layout);
    op.part = BackwardPart::input;
    t.accumulate(x, dx);
  });
  return y;
}

Value silu(Tape& t, Value x, std::string const& label) {
  ActivationShape const shape{ActivationKind::silu, false, t[x].rows, t[x].cols};
  Value const y = t.value(label, shape.rows, shape.cols, t[x].layout);
  unary(t, {OpKind::activation_forward, OpKind::activation_backward, shape, true}, x, y, label);
  return y;
}

}  // namespace

Value conv(Tape& t, Value x, ConvLayer const& layer, std::string const& label, bool input_gradient) {
  VALIDATE(t[x].cols == layer.in,
           fmt::format("{}: {} channels arrive, {} are wanted", layer.name, t[x].cols, layer.in));
  Value y = layer.groups > 1 ? depthwise_conv(t, x, layer, label) : dense_conv(t, x, layer, label, input_gradient);
  if (layer.batch_norm) y = batch_norm(t, y, layer.name, label + ".norm");
  return layer.activation ? silu(t, y, label + ".silu") : y;
}

Value max_pool(Tape& t, Value x, std::int64_t size, std::int64_t kernel, std::string const& label) {
  WindowShape const w{size, size, t.program.micro_batch, t[x].cols, kernel, 1, kernel / 2};
  Value const y = t.value(label, w.out_rows(), w.channels, t[x].layout);
  TensorRef const taps = t.temporary(label + ".taps", Dtype::u8, w.out_rows(), w.channels);
  unary(t, {OpKind::max_pool_forward, OpKind::max_pool_backward, w, false, {taps}}, x, y, label);
  return y;
}

Value upsample(Tape& t, Value x, std::int64_t size, std::int64_t factor, std::string const& label) {
  UpsampleShape const shape{size, size, t.program.micro_batch, t[x].cols, factor};
  Value const y = t.value(label, t[x].rows * factor * factor, t[x].cols, t[x].layout);
  unary(t, {OpKind::upsample_forward, OpKind::upsample_backward, shape}, x, y, label);
  return y;
}

Value concat(Tape& t, std::vector<Value> const& parts, std::string const& label) {
  std::int64_t const rows = t[parts.front()].rows;
  std::int64_t cols = 0, at = 0;
  for (Value const& part : parts) cols += t[part].cols;
  Value const y = t.value(label, rows, cols, t[parts.front()].layout);
  for (Value const& part : parts) {
    pack(t, t[part].ref, columns(t[y].ref, at, cols), rows, t[part].cols, label);
    at += t[part].cols;
  }
  t.on_backward(y, [=, &t](TensorRef dy) {
    std::int64_t from = 0;
    for (Value const& part : parts) {
      std::int64_t const width = t[part].cols;
      TensorRef const dx = t.temporary(label + ".dx", rows, width);
      pack(t, columns(dy, from, cols), dx, rows, width, label);
      from += width;
      t.accumulate(part, dx);
    }
  });
  return y;
}

std::vector<Value> split(Tape& t, Value x, std::vector<std::int64_t> const& widths, std::string const& label) {
  std::int64_t const rows = t[x].rows, cols = t[x].cols;
  std::vector<Value> parts;
  std::int64_t at = 0;
  for (std::int64_t const width : widths) {
    parts.push_back(t.value(label, rows, width, t[x].layout));
    pack(t, columns(t[x].ref, at, cols), t[parts.back()].ref, rows, width, label);
    at += width;
  }
  VALIDATE(at == cols, fmt::format("{}: parts of {} columns, {} there", label, at, cols));
  t.on_backward([=, &t] {
    TensorRef const dx = t.temporary(label + ".dx", rows, cols);
    std::int64_t to = 0;
    for (Value const& part : parts) {
      TensorRef const dy = t.take_gradient(part);
      VALIDATE(dy.valid(), label + ": a part that nobody reads");
      pack(t, dy, columns(dx, to, cols), rows, t[part].cols, label);
      to += t[part].cols;
    }
    t.accumulate(x, dx);
  });
  return parts;
}

Value attend_map(Tape& t, Value qk, Value v, std::int64_t heads, std::string const& label) {
  std::int64_t const rows = t[v].rows, cols = t[v].cols, stride = t[qk].cols;
  AttentionOpShape s;
  s.seq_q = s.seq_k = rows / t.program.micro_batch;
  s.batch = t.program.micro_batch;
  s.heads = s.kv_heads = heads;
  s.head_dim = stride / 2 / heads;
  s.value_dim = cols / heads;
  s.scale = 1.0f / std::sqrt(static_cast<float>(s.head_dim));
  s.mask = AttentionMask::none;
  s.full_pairs = s.visible_pairs = static_cast<double>(s.seq_q) * static_cast<double>(s.seq_k);
  Value const y = t.value(label, rows, cols, t[v].layout);
  TensorRef const lse = t.temporary(label + ".lse", Dtype::f32, s.batch * s.heads, s.seq_q);
  TensorRef const q = columns(t[qk].ref, 0, stride), k = columns(t[qk].ref, stride / 2, stride),
                  values = columns(t[v].ref, 0, cols), none{t.program.inputs.positions};
  t.emit(OpKind::attention_forward, s, label, {q, k, values, none}, {t[y].ref, lse});
  t.on_backward(y, [=, &t](TensorRef dy) {
    TensorRef const dqk = t.temporary(label + ".dqk", rows, stride), dv = t.temporary(label + ".dv", rows, cols);
    t.emit(OpKind::attention_backward, s, label, {q, k, values, t[y].ref, dy, lse, none},
           {columns(dqk, 0, stride), columns(dqk, stride / 2, stride), dv});
    t.accumulate(qk, dqk);
    t.accumulate(v, dv);
  });
  return y;
}

void draw_gradient(Tape& t, Value x, std::string const& name) {
  auto const outputs = static_cast<double>(t[x].rows / t.program.micro_batch * t.program.global_batch);
  TensorId const id = drawn_buffer(t, name + ".gradient", name, t[x].rows, t[x].cols, static_cast<float>(1 / outputs));
  t.program.inputs.drawn.back().gradient_of = t[x].ref.id;
  t[x].gradient = Gradient{{id}, t[x].layout};
}

}  // namespace shardbench
