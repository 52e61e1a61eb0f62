#include "harness/program/graph/vision.hpp"

#include <algorithm>

#include "harness/program/graph/embedding.hpp"
#include "harness/program/graph/parameters.hpp"
#include "harness/program/graph/unary.hpp"

namespace shardbench {

TensorId drawn_buffer(Tape& t, std::string const& name, std::string const& key, std::int64_t rows, std::int64_t cols,
                      float scale) {
  TensorId const id = t.new_tensor(name, TensorRole::buffer, t.program.precision, rows, cols);
  t.program.tensors[id].per_microbatch = true;
  t.program.tensors[id].chunk = all_chunks;
  t.program.inputs.drawn.push_back({id, key, scale});
  return id;
}

Value image(Tape& t, std::int64_t height, std::int64_t width, std::int64_t channels) {
  std::int64_t const rows = height * width * t.program.micro_batch;
  return t.value_of({drawn_buffer(t, "images", "images", rows, channels, 1)}, "images", rows, channels,
                    with(t.block_layout(), Axis::tp, Replicate{}));
}

Value patches(Tape& t, Value image, std::int64_t image_size, std::int64_t patch_size, std::int64_t channels) {
  WindowShape const window{image_size, image_size, t.program.micro_batch, channels, patch_size, patch_size, 0};
  Value const y = t.value("patches", window.out_rows(), window.taps() * channels, t[image].layout);
  t.emit(OpKind::im2col, window, "patches", {t[image].ref}, {t[y].ref});
  return y;
}

Value with_class_token(Tape& t, Value x, std::string const& name) {
  std::int64_t const batch = t.program.micro_batch, rows = t[x].rows, cols = t[x].cols;
  ParameterId const weight = add_uncut(t, name, 1, cols);
  Value const y = t.value(name, rows + batch, cols, t[x].layout);
  // A table of one row: the tokens of position 0 all look up row 0.
  EmbeddingShape const shape{batch, 1, cols};
  TensorRef const ids{t.program.inputs.token_positions};
  t.emit(OpKind::embedding_forward, shape, name, {ids, t.weight(weight)}, {t[y].ref});
  t.emit(OpKind::copy_block, BlockShape{rows, cols}, name + ".join", {t[x].ref}, {behind(t[y].ref, batch * cols)});
  t.on_backward([=, &t] {
    embedding_backward(t, y, weight, shape, ids, name);
    // What belongs to x is a part of y's gradient, read where it lies.
    Gradient const& dy = *t[y].gradient;
    t.accumulate(x, behind(dy.ref, batch * cols), dy.layout);
  });
  return y;
}

Value pool_rows(Tape& t, Value x, std::int64_t begin, std::int64_t end, std::string const& name) {
  std::int64_t const batch = t.program.micro_batch, cols = t[x].cols, seq = t[x].rows / batch;
  Layout layout = t[x].layout;
  // A rank that holds a part of the sequence sums what of it is there.
  std::int64_t first = 0;
  if (is_shard(layout[Axis::tp], sequence_dim)) {
    first = seq * t.program.coordinate[Axis::tp];
    layout[Axis::tp] = Partial{};
  }
  auto const local = [&](std::int64_t position) { return std::clamp<std::int64_t>(position - first, 0, seq); };
  PoolRowsShape const shape{seq, batch, cols, local(begin), local(end), 1.0f / static_cast<float>(end - begin)};
  Value const y = t.value(name, batch, cols, layout, t[x].global_cols);
  unary(t, {OpKind::pool_rows_forward, OpKind::pool_rows_backward, shape}, x, y, name);
  return y;
}

}  // namespace shardbench
