// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): queries, keys and values come from low-rank latents.
#include <fmt/format.h>

#include "harness/program/graph/graph_builder.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

constexpr auto tp_axis = static_cast<std::size_t>(Axis::tp);

}  // namespace

// The down projections are whole on every rank, the up projections are cut by heads: a latent is narrower than the
// stream, so it is what crosses the tensor axis, forwards (sequence parallel) and backwards.
Value GraphBuilder::latent_attention(Value x, std::int64_t layer) {
  MlaConfig const& a = *model_.mla;
  std::int64_t const key_dim = a.qk_nope_head_dim + a.qk_rope_head_dim;
  Value q_source = x;
  if (a.q_lora_rank > 0) {
    q_source = linear(x, {"attention.q_down",
                          "attention.q_down",
                          {{"", a.q_lora_rank, a.q_lora_rank, 0, false}},
                          model_.hidden,
                          model_.qkv_bias,
                          -1});
    q_source = norm(q_source, {}, "attention.q_norm", nullptr);
  }
  std::int64_t const q_inputs = a.q_lora_rank > 0 ? a.q_lora_rank : model_.hidden, q_width = model_.heads * key_dim;
  Value const q = all_rows(
      linear(q_source,
             {"attention.q_up", "attention.q_up", {{"", q_width, q_width, model_.heads, false}}, q_inputs, false, -1}));
  std::int64_t const latent_width = a.kv_lora_rank + a.qk_rope_head_dim;
  Value latent = latent_rows(all_columns(linear(x, {"attention.kv_down",
                                                    "attention.kv_down",
                                                    {{"", latent_width, latent_width, 0, false}},
                                                    model_.hidden,
                                                    model_.qkv_bias,
                                                    -1})));
  Layout everywhere = state(latent).layout;
  everywhere[tp_axis] = Replicate{};
  latent = redistribute(latent, everywhere, "attention.latent");
  if (caches()) {
    // What is cached is the latent; keys and values of every head are made from it again.
    TensorRef const cache = kv_cache(latent_width);
    append_to_cache(state(latent).ref, latent_width, latent_width, cache, 0);
    std::int64_t const rows = (program_.inference.context + program_.local_seq) * program_.micro_batch;
    latent = value_of({cache.id, 0, 0}, "attention.cache", rows, latent_width, latent_width, everywhere);
  }
  return attend_latent(q, latent, layer);
}

/// The key-value latent as it is cached: [normed latent | rotated key part] in every row.
Value GraphBuilder::latent_rows(Value down) {
  MlaConfig const& a = *model_.mla;
  std::int64_t const rank = a.kv_lora_rank, rotary = a.qk_rope_head_dim, width = rank + rotary;
  Layout const layout = state(down).layout;
  std::int64_t const rows = state(down).rows, positions = rows / program_.micro_batch;
  Value const y = new_value("attention.latent", rows, width, width, layout);
  TensorRef const ddown{
      new_tensor(qualified("attention.dlatent"), TensorRole::temporary, program_.precision, rows, width), 0, 0};
  auto const at = [=](TensorRef whole, std::int64_t column) {
    return TensorRef{whole.id, whole.offset + column, width};
  };
  // A rank that holds a slice of the sequence rotates by its slice of the positions.
  std::int64_t const first = is_shard(layout[tp_axis], sequence_dim) ? program_.coordinate[tp_axis] * positions : 0;
  RopeRule const rule = model_.rope_rule(layer_, program_.inference.context + program_.seq, rotary).value();
  RopeShape shape{positions, program_.micro_batch, 1, rotary, rotary, rule, false};
  auto const rotate_part = [=, this](TensorRef whole, bool inverse) {
    RopeShape turned = shape;
    turned.inverse = inverse;
    emit(make_op(OpKind::rope, turned, "attention.rope", {at(whole, rank), {program_.inputs.positions, first, 0}},
                 {at(whole, rank)}));
  };
  TensorRef const from = state(down).ref, to = state(y).ref;
  VectorNorm const normed = vector_norm("attention.kv_norm", rows, 1, rank, at(from, 0), at(to, 0), layout);
  pack(at(from, rank), rows, rotary, width, at(to, rank), width, "attention.latent");
  rotate_part(to, false);
  on_backward([=, this] {
    TensorRef const dy = take_gradient(y);
    rotate_part(dy, true);
    pack(at(dy, rank), rows, rotary, width, at(ddown, rank), width, "attention.latent");
    vector_norm_backward(normed, at(dy, 0), at(ddown, 0));
    accumulate(down, ddown, layout);
  });
  return y;
}

/// Keys and values of every head from the latent, and attention over them.
Value GraphBuilder::attend_latent(Value q, Value latent, std::int64_t layer) {
  MlaConfig const& a = *model_.mla;
  std::int64_t const rank = a.kv_lora_rank, rotary = a.qk_rope_head_dim, latent_width = rank + rotary;
  std::int64_t const rows = state(latent).rows, plain = a.qk_nope_head_dim, value = a.v_head_dim;
  Layout const latent_layout = state(latent).layout;
  TensorRef const latent_ref = state(latent).ref;
  TensorRef const dlatent{
      new_tensor(qualified("attention.dlatent.parts"), TensorRole::temporary, program_.precision, rows, latent_width),
      0, 0};
  // The up projection reads the latent's first columns; what it gives back joins the rotated part's gradient.
  Value const source =
      value_of({latent_ref.id, latent_ref.offset, latent_width}, "attention.latent", rows, rank, rank, latent_layout);
  on_backward([=, this] {
    auto const& g = state(source).gradient;
    pack(g->ref, rows, rank, rank, {dlatent.id, 0, 0}, latent_width, "attention.latent");
    accumulate(latent, dlatent, g->layout);
  });
  std::int64_t const all_plain = model_.heads * plain, all_values = model_.heads * value;
  Value const kv = whole(linear(
      source, {"attention.kv_up",
               "attention.kv_up",
               {{".k", all_plain, all_plain, model_.heads, false}, {".v", all_values, all_values, model_.heads, false}},
               rank,
               false,
               -1}));
  AttentionOpShape const shape = latent_shape(layer);
  std::int64_t const kv_width = state(kv).cols, q_width = state(q).cols;
  if (kv_width != shape.heads * (plain + value) || q_width != shape.heads * shape.head_dim)
    throw IllegalConfig("attention.q_up and attention.kv_up must be cut alike, by heads (shard(0)) or not at all");
  auto const fresh = [&](char const* name, std::int64_t cols) {
    return TensorRef{new_tensor(qualified(name), TensorRole::temporary, program_.precision, rows, cols), 0, 0};
  };
  TensorRef const keys = fresh("attention.keys", q_width), dkeys = fresh("attention.dkeys", q_width),
                  dkv = fresh("attention.dkv", kv_width), dq = fresh("attention.dq", q_width);
  LatentKeysShape const join{rows, shape.heads, plain, rotary};
  RopeRule const rule = model_.rope_rule(layer_, program_.inference.context + program_.seq, rotary).value();
  RopeShape turn{shape.seq_q, shape.batch, shape.heads, shape.head_dim, rotary, rule, false};
  auto const rotate_queries = [=, this](TensorRef heads, bool inverse) {
    RopeShape turned = turn;
    turned.inverse = inverse;
    emit(make_op(OpKind::rope, turned, "attention.rope", {heads, {program_.inputs.positions, 0, 0}}, {heads}));
  };
  TensorRef const kv_ref = state(kv).ref, q_ref = state(q).ref;
  auto const strided = [](TensorRef whole, std::int64_t column, std::int64_t stride) {
    return TensorRef{whole.id, whole.offset + column, stride};
  };
  rotate_queries(q_ref, false);
  emit(make_op(OpKind::join_keys, join, "attention.keys",
               {strided(kv_ref, 0, kv_width), strided(latent_ref, rank, latent_width)}, {keys}));
  std::int64_t const values = shape.heads * plain;
  on_backward([=, this] {
    emit(make_op(OpKind::split_keys, join, "attention.keys", {dkeys},
                 {strided(dkv, 0, kv_width), strided(dlatent, rank, latent_width)}));
    rotate_queries(dq, true);
    accumulate(q, dq, state(q).layout);
    accumulate(kv, dkv, state(kv).layout);
  });
  return attend(shape, {q_ref, keys, strided(kv_ref, values, kv_width)}, {dq, dkeys, strided(dkv, values, kv_width)},
                state(q).rows, state(q).layout);
}

AttentionOpShape GraphBuilder::latent_shape(std::int64_t layer) const {
  MlaConfig const& a = *model_.mla;
  AttentionOpShape s = attention_shape(layer);
  bool const cut = program_.degree[tp_axis] > 1 && is_shard(strategy_.weight("attention.q_up"), 0);
  // Every query head has keys and values of its own.
  s.heads = s.kv_heads = cut ? model_.heads / program_.degree[tp_axis] : model_.heads;
  s.head_dim = a.qk_nope_head_dim + a.qk_rope_head_dim;
  s.value_dim = a.v_head_dim;
  return s;
}

}  // namespace shardbench
