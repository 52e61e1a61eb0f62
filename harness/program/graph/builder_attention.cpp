// Attention: its sizes, rotation, and norms of the heads.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/program/graph/graph_builder.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

constexpr auto tp_axis = static_cast<std::size_t>(Axis::tp);
constexpr auto cp_axis = static_cast<std::size_t>(Axis::cp);

/// Columns `offset` and on of rows that lie `stride` apart.
TensorRef columns(TensorRef whole, std::int64_t offset, std::int64_t stride) {
  return {whole.id, whole.offset + offset, stride};
}

/// Every query sees the whole sequence (or the part that the context axis left).
Layout whole_sequence(Layout layout) {
  if (is_partial(layout[tp_axis]) || is_shard(layout[tp_axis], sequence_dim)) layout[tp_axis] = Replicate{};
  return layout;
}

}  // namespace

AttentionOpShape GraphBuilder::attention_shape(std::int64_t layer) const {
  std::int64_t const tp = program_.degree[tp_axis];
  bool const cut = tp > 1 && is_shard(strategy_.weight("attention.qkv"), 0);
  AttentionOpShape s;
  s.seq_q = program_.local_seq;
  s.seq_k = program_.inference.context + s.seq_q;
  s.batch = program_.micro_batch * streams_;
  s.heads = cut ? model_.heads / tp : model_.heads;
  s.kv_heads = cut ? std::max<std::int64_t>(1, model_.kv_heads / tp) : model_.kv_heads;
  s.head_dim = s.value_dim = model_.head_dim;
  s.scale = model_.attention_scale > 0 ? static_cast<float>(model_.attention_scale)
                                       : 1.0f / std::sqrt(static_cast<float>(model_.head_dim));
  s.softcap = model_.attention_softcap;
  s.window = model_.has_window(layer) && model_.sliding_window < program_.inference.context + program_.seq
                 ? model_.sliding_window
                 : 0;
  s.mask = model_.causal ? AttentionMask::causal : AttentionMask::none;
  s.full_pairs = static_cast<double>(s.seq_q) * static_cast<double>(s.seq_k * program_.degree[cp_axis]);
  double const n = static_cast<double>(program_.seq), w = static_cast<double>(s.window);
  double const all = s.mask == AttentionMask::none ? n * n
                     : s.window > 0                ? w * (w + 1) / 2 + (n - w) * w
                                                   : n * (n + 1) / 2;
  if (caches() && program_.degree[cp_axis] == 1) {
    s.visible_pairs = 0;
    for (std::int64_t i = 0; i < s.seq_q; ++i) {
      std::int64_t const keys = s.mask == AttentionMask::none ? s.seq_k : program_.inference.context + i + 1;
      s.visible_pairs += static_cast<double>(s.window > 0 ? std::min(s.window, keys) : keys);
    }
    return s;
  }
  // Zigzag chunks give every rank of the ring the same share of the visible pairs.
  s.visible_pairs = all / static_cast<double>(program_.degree[cp_axis]);
  return s;
}

void GraphBuilder::rotate(TensorRef heads, std::int64_t stride, bool inverse) {
  AttentionOpShape const a = attention_shape(layer_);
  auto const rotary = static_cast<std::int64_t>(model_.rotary_fraction * static_cast<double>(model_.head_dim));
  std::optional<RopeRule> const rule = model_.rope_rule(layer_, program_.inference.context + program_.seq, rotary);
  if (!rule) return;
  RopeShape const shape{a.seq_q, a.batch, a.heads + a.kv_heads, a.head_dim, rotary, *rule, inverse};
  heads.stride = stride;
  emit(make_op(OpKind::rope, shape, "attention.rope", {heads, {program_.inputs.positions, 0, 0}}, {heads}));
}

VectorNorm GraphBuilder::vector_norm(std::string const& name, std::int64_t rows, std::int64_t count, std::int64_t cols,
                                     TensorRef x, TensorRef y, Layout layout) {
  std::string const full = qualified(name);
  InitKind const init = model_.norm_weight_offset > 0 ? InitKind::zeros : InitKind::ones;
  std::int32_t const weight = add_vector(full + ".weight", {{full + ".weight", cols, 0, cols}}, cols, init);
  auto const statistic = [&](char const* what) {
    return TensorRef{new_tensor(full + what, TensorRole::temporary, Dtype::f32, rows, count), 0, 0};
  };
  VectorNorm n{name, weight, {model_.norm, rows, cols, model_.norm_eps, model_.norm_weight_offset, false, count}, x};
  if (model_.norm == NormKind::layer_norm) n.mean = statistic(".mean");
  n.rstd = statistic(".rstd");
  // Heads are rows here: a rank that has some of them has a part of the weight's gradient.
  n.layout = layout;
  if (is_shard(layout[tp_axis], feature_dim)) n.layout[tp_axis] = Shard{sequence_dim};
  emit(make_op(OpKind::norm_forward, n.shape, name,
               {x, {}, {program_.parameters[static_cast<std::size_t>(weight)].weight, 0, 0}, {}},
               {y, n.mean, n.rstd, {}}));
  return n;
}

void GraphBuilder::vector_norm_backward(VectorNorm const& n, TensorRef dy, TensorRef dx) {
  auto const& p = program_.parameters[static_cast<std::size_t>(n.weight)];
  Op op = make_op(OpKind::norm_backward, n.shape, n.name, {dy, n.x, {p.weight, 0, 0}, n.mean, n.rstd, {}},
                  {dx, {p.gradient, 0, 0}, {}});
  writes_gradient(op, n.weight, n.layout);
  op.part = BackwardPart::input;  // dx comes from the same pass over the data
  emit(std::move(op));
}

Value GraphBuilder::attention(Value qkv, std::int64_t layer) {
  qkv = redistribute(qkv, whole_sequence(state(qkv).layout), state(qkv).name + ".reduce");
  AttentionOpShape const shape = attention_shape(layer);
  std::int64_t const q_width = shape.heads * shape.head_dim, kv_width = shape.kv_heads * shape.head_dim;
  std::int64_t const stride = state(qkv).cols, rows = state(qkv).rows, qk_width = q_width + kv_width;
  VALIDATE(stride == q_width + 2 * kv_width,
           fmt::format("attention: packed width {} is not {} + 2*{}", stride, q_width, kv_width));
  auto const fresh = [&](char const* name, std::int64_t cols) {
    return TensorRef{new_tensor(qualified(name), TensorRole::temporary, program_.precision, rows, cols), 0, 0};
  };
  TensorRef const packed = state(qkv).ref, dpacked = fresh("attention.dqkv", stride);
  // Normed queries and keys lie in a tensor of their own, since the norm's backward reads what it was given.
  bool const normed = model_.qk_norm;
  TensorRef const qk = normed ? fresh("attention.qk", qk_width) : packed,
                  dqk = normed ? fresh("attention.dqk", qk_width) : dpacked;
  std::int64_t const qk_stride = normed ? qk_width : stride;
  std::vector<VectorNorm> norms;
  Layout const layout = state(qkv).layout;
  if (normed) {
    norms.push_back(vector_norm("attention.q_norm", rows, shape.heads, shape.head_dim, columns(packed, 0, stride),
                                columns(qk, 0, qk_stride), layout));
    norms.push_back(vector_norm("attention.k_norm", rows, shape.kv_heads, shape.head_dim,
                                columns(packed, q_width, stride), columns(qk, q_width, qk_stride), layout));
  }
  rotate(qk, qk_stride, false);
  on_backward([=, this] {
    rotate(dqk, qk_stride, true);
    for (std::size_t i = 0; i < norms.size(); ++i) {
      std::int64_t const offset = i == 0 ? 0 : q_width;
      vector_norm_backward(norms[i], columns(dqk, offset, qk_stride), columns(dpacked, offset, stride));
    }
    accumulate(qkv, dpacked, layout);
  });
  if (caches()) {
    TensorRef const cache = kv_cache(2 * kv_width);
    append_to_cache(columns(qk, q_width, qk_stride), qk_stride, kv_width, cache, 0);
    append_to_cache(columns(packed, qk_width, stride), stride, kv_width, cache, kv_width);
    // A context rank caches the tokens it holds and attends as in training; nothing is cached before a prompt.
    if (program_.degree[cp_axis] == 1)
      return attend(
          shape, {columns(qk, 0, qk_stride), columns(cache, 0, 2 * kv_width), columns(cache, kv_width, 2 * kv_width)},
          {}, rows, layout);
  }
  auto const parts = [=](TensorRef q_and_k, TensorRef v) {
    return AttentionParts{columns(q_and_k, 0, qk_stride), columns(q_and_k, q_width, qk_stride),
                          columns(v, qk_width, stride)};
  };
  return attend(shape, parts(qk, packed), parts(dqk, dpacked), rows, layout);
}

}  // namespace shardbench
