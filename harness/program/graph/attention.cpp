// Attention over heads that a projection gave: its sizes, rotation, and norms of the heads.
#include "harness/program/graph/attention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/program/graph/context.hpp"
#include "harness/program/graph/inference.hpp"
#include "harness/program/graph/module_scope.hpp"
#include "harness/program/graph/norm.hpp"
#include "harness/program/graph/parameters.hpp"
#include "harness/program/graph/streams.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

/// Query-key pairs that a head computes for one sample in this rank.
double visible_pairs_of(Tape const& t, AttentionOpShape const& s) {
  StepProgram const& p = t.program;
  bool const all_visible = s.mask == AttentionMask::none;
  if (caches(t) && p.degree[Axis::cp] == 1) {
    double pairs = 0;
    for (std::int64_t i = 0; i < s.seq_q; ++i) {
      std::int64_t const keys = all_visible ? s.seq_k : p.inference.context + i + 1;
      pairs += static_cast<double>(std::min(s.window > 0 ? std::min(s.window, keys) : keys, s.seq_k));
    }
    return pairs;
  }
  double const n = static_cast<double>(p.seq), w = static_cast<double>(s.window);
  double const all = all_visible ? n * n : s.window > 0 ? w * (w + 1) / 2 + (n - w) * w : n * (n + 1) / 2;
  // Zigzag pieces of the sequence give every rank of the ring the same share of the visible pairs.
  return all / static_cast<double>(p.degree[Axis::cp]);
}

/// Every query sees the whole sequence (or the part that the context axis left).
Layout whole_sequence(Layout layout) {
  if (is_partial(layout[Axis::tp]) || is_shard(layout[Axis::tp], sequence_dim)) layout[Axis::tp] = Replicate{};
  return layout;
}

/// Rotary embedding of queries and keys side by side, where the layer has one.
void rotate_heads(Tape& t, TensorRef heads, bool inverse) {
  AttentionOpShape const a = attention_shape(t);
  auto const rotary = static_cast<std::int64_t>(t.model.rotary_fraction * static_cast<double>(t.model.head_dim));
  auto const rule = t.model.rope_rule(t.layer(), t.program.inference.context + t.program.seq, rotary);
  if (!rule) return;
  rotate(t, {a.seq_q, a.batch, a.heads + a.kv_heads, a.head_dim, rotary, *rule}, heads, {t.program.inputs.positions},
         inverse);
}

}  // namespace

AttentionOpShape attention_shape(Tape const& t) {
  ModelConfig const& m = t.model;
  std::int64_t const tp = t.program.degree[Axis::tp];
  bool const cut = is_shard(weight_placement(t, "attention.qkv"), 0);
  AttentionOpShape s;
  s.seq_q = t.program.local_seq;
  s.seq_k = t.program.inference.context + s.seq_q;
  s.batch = t.program.micro_batch * residual_streams(t);
  s.heads = cut ? m.heads / tp : m.heads;
  s.kv_heads = cut ? std::max<std::int64_t>(1, m.kv_heads / tp) : m.kv_heads;
  s.head_dim = s.value_dim = m.head_dim;
  s.scale =
      m.attention_scale > 0 ? static_cast<float>(m.attention_scale) : 1.0f / std::sqrt(static_cast<float>(m.head_dim));
  s.softcap = m.attention_softcap;
  bool const window = m.has_window(t.layer()) && m.sliding_window < t.program.inference.context + t.program.seq;
  s.window = window ? m.sliding_window : 0;
  s.mask = m.causal ? AttentionMask::causal : AttentionMask::none;
  if (caches(t) && t.program.degree[Axis::cp] == 1 && window && t.experiment.phase == PhaseKind::decode) {
    // The cache holds what the window reaches, and nothing else.
    s.seq_k = cached_positions(t);
    s.window = 0;
  }
  s.full_pairs = static_cast<double>(s.seq_q) * static_cast<double>(s.seq_k * t.program.degree[Axis::cp]);
  s.visible_pairs = visible_pairs_of(t, s);
  return s;
}

void rotate(Tape& t, RopeShape shape, TensorRef heads, TensorRef positions, bool inverse) {
  shape.inverse = inverse;
  t.emit(OpKind::rope, shape, "attention.rope", {heads, positions}, {heads});
}

Value attention(Tape& t, Value qkv) {
  qkv = t.redistribute(qkv, whole_sequence(t[qkv].layout), t[qkv].name + ".reduce");
  AttentionOpShape const shape = attention_shape(t);
  std::int64_t const q_width = shape.heads * shape.head_dim, kv_width = shape.kv_heads * shape.head_dim;
  std::int64_t const stride = t[qkv].cols, rows = t[qkv].rows, qk_width = q_width + kv_width;
  VALIDATE(stride == q_width + 2 * kv_width,
           fmt::format("attention: packed width {} is not {} + 2*{}", stride, q_width, kv_width));
  TensorRef const packed = t[qkv].ref, dpacked = t.temporary("attention.dqkv", rows, stride);
  // Normed queries and keys lie in a tensor of their own, since the norm's backward reads what it was given.
  bool const normed = t.model.qk_norm;
  TensorRef const qk = normed ? t.temporary("attention.qk", rows, qk_width) : packed,
                  dqk = normed ? t.temporary("attention.dqk", rows, qk_width) : dpacked;
  std::int64_t const qk_stride = normed ? qk_width : stride;
  std::vector<NormOp> norms;
  Layout const layout = t[qkv].layout;
  auto const norm_heads = [&](char const* name, std::int64_t heads, std::int64_t first) {
    norms.push_back(vector_norm(t, name, rows, heads, shape.head_dim, columns(packed, first, stride),
                                columns(qk, first, qk_stride), layout));
  };
  if (normed) {
    ModuleScope const scope(t, RecomputeModule::layernorm);
    norm_heads("attention.q_norm", shape.heads, 0), norm_heads("attention.k_norm", shape.kv_heads, q_width);
    rotate_heads(t, columns(qk, 0, qk_stride), false);  // in place of what the norms gave
  } else {
    rotate_heads(t, columns(qk, 0, qk_stride), false);
  }
  t.on_backward([=, &t] {
    rotate_heads(t, columns(dqk, 0, qk_stride), true);
    for (NormOp const& norm : norms) {
      std::int64_t const first = norm.x.offset - packed.offset;
      norm_backward(t, norm, columns(dqk, first, qk_stride), columns(dpacked, first, stride));
    }
    t.accumulate(qkv, dpacked, layout);
  });
  auto const parts = [=](TensorRef q_and_k, TensorRef v) {
    return AttentionParts{columns(q_and_k, 0, qk_stride), columns(q_and_k, q_width, qk_stride),
                          columns(v, qk_width, stride)};
  };
  AttentionParts in = parts(qk, packed);
  if (caches(t)) {
    TensorRef const cache = kv_cache(t, 2 * kv_width), values = columns(cache, kv_width, cache.stride);
    append_to_cache(t, in.k, kv_width, cache);
    append_to_cache(t, in.v, kv_width, values);
    // A context rank caches the tokens it holds and attends as in training; nothing is cached before a prompt.
    // A prompt that is longer than what is kept attends to its own, too.
    bool const whole = cached_positions(t) >= t.program.inference.context + t.program.local_seq;
    if (t.program.degree[Axis::cp] == 1 && (whole || t.experiment.phase == PhaseKind::decode))
      in.k = cache, in.v = values;
  }
  return attend(t, shape, in, parts(dqk, dpacked), rows, layout);
}

}  // namespace shardbench
