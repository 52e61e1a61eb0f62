// Operations on images and on the sequences made of them.
#include <algorithm>

#include "harness/program/graph/graph_builder.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

constexpr auto tp_axis = static_cast<std::size_t>(Axis::tp);

}  // namespace

TensorId GraphBuilder::drawn_buffer(std::string const& name, std::string const& key, std::int64_t rows,
                                    std::int64_t cols, float scale) {
  TensorId const id = new_tensor(name, TensorRole::buffer, program_.precision, rows, cols);
  Tensor& t = program_.tensors[static_cast<std::size_t>(id)];
  t.per_microbatch = true;
  t.chunk = -1;
  program_.inputs.drawn.push_back({id, key, scale});
  return id;
}

Value GraphBuilder::image(std::int64_t height, std::int64_t width, std::int64_t channels) {
  std::int64_t const rows = height * width * program_.micro_batch;
  Layout layout = block_;
  layout[tp_axis] = Replicate{};
  return value_of({drawn_buffer("images", "images", rows, channels, 1), 0, 0}, "images", rows, channels, channels,
                  layout);
}

Value GraphBuilder::patches(Value image, std::int64_t image_size, std::int64_t patch_size, std::int64_t channels) {
  WindowShape const window{image_size, image_size, program_.micro_batch, channels, patch_size, patch_size, 0};
  std::int64_t const cols = window.taps() * channels;
  Value const y = new_value("patches", window.out_rows(), cols, cols, state(image).layout);
  emit(make_op(OpKind::im2col, window, "patches", {state(image).ref}, {state(y).ref}));
  return y;
}

Value GraphBuilder::with_class_token(Value x, std::string const& name) {
  std::int64_t const batch = program_.micro_batch, rows = state(x).rows, cols = state(x).cols;
  Parameter token;
  token.name = name;
  token.sections = {{name, 1, 0, 1}};
  token.rows = 1;
  token.cols = token.global_cols = cols;
  std::int32_t const weight = add_parameter(std::move(token));
  Value const y = new_value(name, rows + batch, cols, cols, state(x).layout);
  // A table of one row: the tokens of position 0 all look up row 0.
  EmbeddingShape const shape{batch, 1, cols, 0};
  TensorRef const ids{program_.inputs.token_positions, 0, 0};
  TensorRef const whole = state(y).ref, behind{whole.id, batch * cols, 0};
  emit(make_op(OpKind::embedding_forward, shape, name,
               {ids, {program_.parameters[static_cast<std::size_t>(weight)].weight, 0, 0}}, {whole}));
  emit(make_op(OpKind::copy_block, BlockShape{rows, cols, 1}, name + ".join", {state(x).ref}, {behind}));
  on_backward([=, this] {
    TensorRef const dy = take_gradient(y);
    Op op = make_op(OpKind::embedding_backward, shape, name, {ids, dy},
                    {{program_.parameters[static_cast<std::size_t>(weight)].gradient, 0, 0}});
    writes_gradient(op, weight, state(y).layout);
    emit(std::move(op));
    // What belongs to x is a part of dy, read where it lies.
    accumulate(x, {dy.id, dy.offset + batch * cols, 0}, state(y).gradient->layout);
  });
  return y;
}

Value GraphBuilder::pool_rows(Value x, std::int64_t begin, std::int64_t end, std::string const& name) {
  std::int64_t const batch = program_.micro_batch, cols = state(x).cols, seq = state(x).rows / batch;
  Layout layout = state(x).layout;
  // A rank that holds a part of the sequence sums what of it is there.
  std::int64_t first = 0;
  if (is_shard(layout[tp_axis], sequence_dim)) {
    first = seq * program_.coordinate[tp_axis];
    layout[tp_axis] = Partial{};
  }
  auto const local = [&](std::int64_t position) { return std::clamp<std::int64_t>(position - first, 0, seq); };
  PoolRowsShape const shape{seq, batch, cols, local(begin), local(end), 1.0f / static_cast<float>(end - begin)};
  Value const y = new_value(name, batch, cols, state(x).global_cols, layout);
  emit(make_op(OpKind::pool_rows_forward, shape, name, {state(x).ref}, {state(y).ref}));
  on_backward([=, this] {
    TensorRef const dy = take_gradient(y);
    TensorRef const dx{
        new_tensor(qualified(name + ".dx"), TensorRole::temporary, program_.precision, seq * batch, cols), 0, 0};
    emit(make_op(OpKind::pool_rows_backward, shape, name, {dy}, {dx}));
    accumulate(x, dx, state(x).layout);
  });
  return y;
}

}  // namespace shardbench
