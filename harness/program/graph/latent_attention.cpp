#include "harness/program/graph/latent_attention.hpp"

#include <optional>
#include <utility>

#include "harness/program/graph/attention.hpp"
#include "harness/program/graph/context.hpp"
#include "harness/program/graph/inference.hpp"
#include "harness/program/graph/linear.hpp"
#include "harness/program/graph/module_scope.hpp"
#include "harness/program/graph/norm.hpp"
#include "harness/program/graph/redistribute.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

AttentionOpShape latent_shape(Tape const& t) {
  MlaConfig const& a = *t.model.mla;
  AttentionOpShape s = attention_shape(t);
  bool const cut = is_shard(weight_placement(t, "attention.q_up"), 0);
  // Every query head has keys and values of its own.
  s.heads = s.kv_heads = cut ? t.model.heads / t.program.degree[Axis::tp] : t.model.heads;
  s.head_dim = a.qk_nope_head_dim + a.qk_rope_head_dim;
  s.value_dim = a.v_head_dim;
  return s;
}

RopeRule rope_of(Tape const& t) {
  return t.model.rope_rule(t.layer(), t.program.inference.context + t.program.seq, t.model.mla->qk_rope_head_dim)
      .value();
}

/// Rotation of the last part of every query head.
RopeShape query_rotation(Tape const& t) {
  AttentionOpShape const shape = latent_shape(t);
  return {shape.seq_q, shape.batch, shape.heads, shape.head_dim, t.model.mla->qk_rope_head_dim, rope_of(t)};
}

/// The key-value latent as it is cached: [normed latent | rotated key part] in every row.
Value latent_rows(Tape& t, Value down) {
  MlaConfig const& a = *t.model.mla;
  std::int64_t const rank = a.kv_lora_rank, rotary = a.qk_rope_head_dim, width = rank + rotary;
  Layout const layout = t[down].layout;
  std::int64_t const rows = t[down].rows, batch = t.program.micro_batch;
  Value const y = t.value("attention.latent", rows, width, layout);
  TensorRef const ddown = t.temporary("attention.dlatent", rows, width);
  auto const latent_of = [=](TensorRef whole) { return columns(whole, 0, width); };
  auto const key_of = [=](TensorRef whole) { return columns(whole, rank, width); };
  RopeShape const shape{rows / batch, batch, 1, rotary, rotary, rope_of(t)};
  TensorRef const positions = positions_of(t, down), from = t[down].ref, to = t[y].ref;
  ModuleScope const scope(t, RecomputeModule::layernorm);
  NormOp const normed =
      vector_norm(t, "attention.kv_norm", rows, 1, rank, latent_of(from), latent_of(to), layout, a.norm_eps);
  pack(t, key_of(from), key_of(to), rows, rotary, "attention.latent");
  rotate(t, shape, key_of(to), positions, false);
  t.on_backward(y, [=, &t](TensorRef dy) {
    rotate(t, shape, key_of(dy), positions, true);
    pack(t, key_of(dy), key_of(ddown), rows, rotary, "attention.latent");
    norm_backward(t, normed, latent_of(dy), latent_of(ddown));
    t.accumulate(down, ddown, layout);
  });
  return y;
}

/// Keys and values of every head, as the up projection gives them: [keys without rotation | values].
Value keys_and_values(Tape& t, Value latent, TensorRef dlatent) {
  MlaConfig const& a = *t.model.mla;
  std::int64_t const rank = a.kv_lora_rank, width = rank + a.qk_rope_head_dim, rows = t[latent].rows;
  // The up projection reads the latent's first columns; what it gives back joins the rotated part's gradient.
  Value const source = t.value_of(columns(t[latent].ref, 0, width), "attention.latent", rows, rank, t[latent].layout);
  t.on_backward([=, &t] {
    Gradient const& g = *t[source].gradient;
    pack(t, g.ref, columns(dlatent, 0, width), rows, rank, "attention.latent");
    t.accumulate(latent, dlatent, g.layout);
  });
  std::int64_t const heads = t.model.heads, plain = heads * a.qk_nope_head_dim, values = heads * a.v_head_dim;
  LinearSpec up = whole_weight("attention.kv_up", 0, rank);
  up.sections = {{".k", plain, plain, heads}, {".v", values, values, heads}};
  return whole(t, linear(t, source, up));
}

/// Keys and values of every head from the latent, and attention over them.
Value attend_latent(Tape& t, Value q, Value latent) {
  MlaConfig const& a = *t.model.mla;
  std::int64_t const rank = a.kv_lora_rank, rotary = a.qk_rope_head_dim, latent_width = rank + rotary;
  std::int64_t const rows = t[latent].rows, plain = a.qk_nope_head_dim;
  TensorRef const latent_ref = t[latent].ref;
  TensorRef const dlatent = t.temporary("attention.dlatent.parts", rows, latent_width);
  std::optional<ModuleScope> scope(std::in_place, t, RecomputeModule::mla_up_proj);
  Value const kv = keys_and_values(t, latent, dlatent);
  AttentionOpShape const shape = latent_shape(t);
  std::int64_t const kv_width = t[kv].cols, q_width = t[q].cols;
  if (kv_width != shape.heads * (plain + a.v_head_dim) || q_width != shape.heads * shape.head_dim)
    throw IllegalConfig("attention.q_up and attention.kv_up must be cut alike, by heads (shard(0)) or not at all");
  TensorRef const keys = t.temporary("attention.keys", rows, q_width),
                  dkeys = t.temporary("attention.dkeys", rows, q_width),
                  dkv = t.temporary("attention.dkv", rows, kv_width), dq = t.temporary("attention.dq", rows, q_width);
  LatentKeysShape const join{rows, shape.heads, plain, rotary};
  TensorRef const kv_ref = t[kv].ref, q_ref = t[q].ref;
  t.emit(OpKind::join_keys, join, "attention.keys",
         {columns(kv_ref, 0, kv_width), columns(latent_ref, rank, latent_width)}, {keys});
  t.on_backward([=, &t] {
    t.emit(OpKind::split_keys, join, "attention.keys", {dkeys},
           {columns(dkv, 0, kv_width), columns(dlatent, rank, latent_width)});
    rotate(t, query_rotation(t), dq, {t.program.inputs.positions}, true);
    t.accumulate(q, dq);
    t.accumulate(kv, dkv);
  });
  scope.reset();
  std::int64_t const values = shape.heads * plain;
  return attend(t, shape, {q_ref, keys, columns(kv_ref, values, kv_width)}, {dq, dkeys, columns(dkv, values, kv_width)},
                t[q].rows, t[q].layout);
}

}  // namespace

// The down projections are whole on every rank, the up projections are cut by heads: a latent is narrower than the
// residual stream, so it is what crosses the tensor axis, forwards (sequence parallel) and backwards.
Value latent_attention(Tape& t, Value x) {
  MlaConfig const& a = *t.model.mla;
  std::int64_t const hidden = t.model.hidden, heads = t.model.heads, rank = a.q_lora_rank;
  bool const bias = t.model.qkv_bias;
  Value q_source = x;
  if (rank > 0)
    q_source =
        norm(t, linear(t, x, whole_weight("attention.q_down", rank, hidden, bias)), "attention.q_norm", a.norm_eps);
  std::int64_t const q_width = heads * (a.qk_nope_head_dim + a.qk_rope_head_dim);
  LinearSpec const up = whole_weight("attention.q_up", q_width, rank > 0 ? rank : hidden, false, heads);
  std::optional<ModuleScope> scope(std::in_place, t, RecomputeModule::mla_up_proj);
  Value const q = all_rows(t, linear(t, q_source, up));
  rotate(t, query_rotation(t), t[q].ref, {t.program.inputs.positions}, false);
  scope.reset();
  std::int64_t const width = a.kv_lora_rank + a.qk_rope_head_dim;
  Value const down = linear(t, x, whole_weight("attention.kv_down", width, hidden, bias));
  Value latent = latent_rows(t, all_columns(t, down));
  latent = redistribute_along(t, latent, Axis::tp, Replicate{}, "attention.latent");
  if (caches(t)) {
    // What is cached is the latent; keys and values of every head are made from it again.
    TensorRef const cache = kv_cache(t, width);
    append_to_cache(t, columns(t[latent].ref, 0, width), width, cache);
    std::int64_t const rows = (t.program.inference.context + t.program.local_seq) * t.program.micro_batch;
    latent = t.value_of({cache.id}, "attention.cache", rows, width, t[latent].layout);
  }
  return attend_latent(t, q, latent);
}

}  // namespace shardbench
