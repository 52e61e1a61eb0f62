// The attention core: whole, or over a sequence that the context axis cuts, by one of three methods.
#include <algorithm>

#include "harness/program/graph/graph_builder.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

constexpr auto tp_axis = static_cast<std::size_t>(Axis::tp);
constexpr auto cp_axis = static_cast<std::size_t>(Axis::cp);

bool meet(DimRange a, DimRange b) { return a.begin < b.begin + b.size && b.begin < a.begin + a.size; }

bool meets_any(std::vector<DimRange> const& ranges, DimRange range) {
  return std::ranges::any_of(ranges, [&](DimRange r) { return meet(r, range); });
}

std::int64_t key_width(AttentionOpShape const& s) { return s.kv_heads * s.head_dim; }
std::int64_t value_width(AttentionOpShape const& s) { return s.kv_heads * s.value_dim; }

TensorRef columns(TensorRef x, std::int64_t first, std::int64_t stride) { return {x.id, x.offset + first, stride}; }

}  // namespace

std::int64_t GraphBuilder::stride_of(TensorRef x) const {
  return x.stride > 0 ? x.stride : program_.tensors[static_cast<std::size_t>(x.id)].cols;
}

Value GraphBuilder::slice(TensorRef x, std::int64_t rows, std::int64_t cols, Layout const& layout,
                          std::string const& name) {
  Value const y = new_value(name, rows, cols, cols, layout);
  pack(x, rows, cols, stride_of(x), state(y).ref, cols, name);
  return y;
}

void GraphBuilder::unslice(Value x, TensorRef gradient, std::string const& name) {
  TensorRef const from = take_gradient(x);
  pack(from, state(x).rows, state(x).cols, state(x).cols, gradient, stride_of(gradient), name);
}

Value GraphBuilder::attend(AttentionOpShape const& shape, AttentionParts const& parts, AttentionParts const& gradients,
                           std::int64_t rows, Layout const& layout) {
  bool const cut = program_.degree[cp_axis] > 1;
  CpMethod const method = experiment_.cut.cp_method;
  core_ = true;
  AttentionData d{shape, parts.q, parts.k, parts.v, {}, {}};
  Value const out = cut && method == CpMethod::ulysses      ? attend_with_some_heads(d, gradients, rows, layout)
                    : cut && method == CpMethod::all_gather ? attend_to_gathered_keys(d, gradients, rows, layout)
                                                            : attend_here(d, gradients, rows, layout);
  core_ = false;
  return out;
}

Value GraphBuilder::attention_output(AttentionOpShape const& shape, std::int64_t rows, Layout const& layout) {
  std::int64_t const width = shape.heads * shape.value_dim;
  std::int64_t const global_width = is_shard(layout[tp_axis], feature_dim) ? width * program_.degree[tp_axis] : width;
  return new_value("attention", rows, width, global_width, layout);
}

Value GraphBuilder::attend_here(AttentionData d, AttentionParts const& gradients, std::int64_t rows,
                                Layout const& layout) {
  bool const ring = program_.degree[cp_axis] > 1;
  Value const out = attention_output(d.shape, rows, layout);
  d.out = state(out).ref;
  if (ring || !caches()) d.lse = log_sum_exp(d.shape);  // what merges of blocks and the backward pass need
  ring ? ring_forward(d) : whole_forward(d);
  on_backward([=, this] {
    AttentionGradients const g{take_gradient(out), gradients.q, gradients.k, gradients.v};
    ring ? ring_backward(d, g) : whole_backward(d, g);
  });
  return out;
}

Value GraphBuilder::attend_to_gathered_keys(AttentionData d, AttentionParts const& gradients, std::int64_t rows,
                                            Layout const& layout) {
  std::int64_t const k_width = key_width(d.shape), v_width = value_width(d.shape), kv_width = k_width + v_width;
  Value const kv = value_of(joined_keys(d), "attention.kv", rows, kv_width, kv_width, layout);
  on_backward([=, this] {
    TensorRef const sum = take_gradient(kv);
    pack(sum, rows, k_width, kv_width, gradients.k, stride_of(gradients.k), "attention.dk");
    pack(columns(sum, k_width, 0), rows, v_width, kv_width, gradients.v, stride_of(gradients.v), "attention.dv");
  });
  Layout whole = layout;
  whole[cp_axis] = Replicate{};
  Value const keys = redistribute(kv, whole, "attention.gather");
  d.k = columns(state(keys).ref, 0, kv_width), d.v = columns(state(keys).ref, k_width, kv_width);
  Value const out = attention_output(d.shape, rows, layout);
  d.out = state(out).ref, d.lse = log_sum_exp(d.shape);
  gathered_forward(d);
  on_backward([=, this] {
    TensorRef const dkv{new_tensor(qualified("attention.gathered.dkv"), TensorRole::temporary, program_.precision,
                                   program_.seq * d.shape.batch, kv_width),
                        0, 0};
    gathered_backward(d, {take_gradient(out), gradients.q, columns(dkv, 0, kv_width), columns(dkv, k_width, kv_width)});
    // Each rank has seen its own queries only.
    Layout partial = whole;
    partial[cp_axis] = Partial{};
    accumulate(keys, dkv, partial);
  });
  return out;
}

TensorRef GraphBuilder::log_sum_exp(AttentionOpShape const& s) {
  return {new_tensor(qualified("attention.lse"), TensorRole::temporary, Dtype::f32, s.batch * s.heads, s.seq_q), 0, 0};
}

void GraphBuilder::whole_forward(AttentionData const& d) {
  emit(make_op(OpKind::attention_forward, d.shape, "attention", {d.q, d.k, d.v}, {d.out, d.lse}));
}

void GraphBuilder::whole_backward(AttentionData const& d, AttentionGradients const& g) {
  emit(make_op(OpKind::attention_backward, d.shape, "attention", {d.q, d.k, d.v, d.out, g.dout, d.lse},
               {g.dq, g.dk, g.dv}));
}

// --- blocks ---

AttentionOpShape GraphBuilder::block_shape(AttentionData const& d, ContextBlock const& block) const {
  AttentionOpShape s = d.shape;
  s.seq_q = block.q.size, s.seq_k = block.k.size;
  s.mask = block.rule.mask, s.window = block.rule.window, s.q_offset = block.q_offset;
  s.visible_pairs = block.pairs;
  s.full_pairs = d.shape.full_pairs * block.pairs / d.shape.visible_pairs;
  s.statistic_stride = d.shape.seq_q;
  return s;
}

TensorRef GraphBuilder::block_rows(TensorRef x, DimRange rows) const {
  std::int64_t const stride = stride_of(x);
  return {x.id, x.offset + rows.begin * program_.micro_batch * stride, stride};
}

void GraphBuilder::block_forward(AttentionData const& d, ContextBlock const& block, bool merges) {
  AttentionOpShape const shape = block_shape(d, block);
  std::vector<TensorRef> const inputs{block_rows(d.q, block.q), block_rows(d.k, block.k), block_rows(d.v, block.k)};
  TensorRef const out = block_rows(d.out, block.q), lse{d.lse.id, d.lse.offset + block.q.begin, 0};
  if (!merges) {
    emit(make_op(OpKind::attention_forward, shape, "attention", inputs, {out, lse}));
    return;
  }
  AttentionOpShape alone = shape;
  alone.statistic_stride = 0;
  TensorRef const part{new_tensor(qualified("attention.block"), TensorRole::temporary, program_.precision,
                                  shape.seq_q * shape.batch, shape.heads * shape.value_dim),
                       0, 0};
  TensorRef const part_lse = log_sum_exp(alone);
  emit(make_op(OpKind::attention_forward, alone, "attention", inputs, {part, part_lse}));
  emit(make_op(OpKind::attention_merge, shape, "attention.merge", {part, part_lse}, {out, lse}));
}

void GraphBuilder::block_backward(AttentionData const& d, AttentionGradients const& g, ContextBlock const& block,
                                  bool add_q, bool add_kv) {
  AttentionOpShape shape = block_shape(d, block);
  shape.add_q = add_q, shape.add_kv = add_kv;
  emit(make_op(OpKind::attention_backward, shape, "attention",
               {block_rows(d.q, block.q),
                block_rows(d.k, block.k),
                block_rows(d.v, block.k),
                block_rows(d.out, block.q),
                block_rows(g.dout, block.q),
                {d.lse.id, d.lse.offset + block.q.begin, 0}},
               {block_rows(g.dq, block.q), block_rows(g.dk, block.k), block_rows(g.dv, block.k)}));
}

// --- ring ---

TensorRef GraphBuilder::ring_shift(TensorRef x, std::int64_t rows, std::int64_t cols, std::string const& name) {
  TensorRef const y{new_tensor(qualified(name), TensorRole::temporary, program_.precision, rows, cols), 0, 0};
  emit(make_collective(OpKind::ring_shift, group_id("cp"), rows * cols, program_.precision, name, x, y));
  return y;
}

TensorRef GraphBuilder::joined_keys(AttentionData const& d) {
  std::int64_t const rows = d.shape.seq_k * d.shape.batch, k_width = key_width(d.shape), v_width = value_width(d.shape);
  std::int64_t const width = k_width + v_width;
  TensorRef const kv{new_tensor(qualified("attention.kv"), TensorRole::temporary, program_.precision, rows, width), 0,
                     0};
  pack(d.k, rows, k_width, stride_of(d.k), kv, width, "attention.k");
  pack(d.v, rows, v_width, stride_of(d.v), columns(kv, k_width, 0), width, "attention.v");
  return kv;
}

std::vector<std::vector<ContextBlock>> GraphBuilder::ring_steps(AttentionOpShape const& s) const {
  return ring_blocks(context_layout(model_, experiment_.cut.cp_method), program_.seq, program_.degree[cp_axis],
                     program_.coordinate[cp_axis], {s.mask, s.window});
}

void GraphBuilder::ring_forward(AttentionData const& d) {
  std::int64_t const rows = d.shape.seq_k * d.shape.batch, k_width = key_width(d.shape),
                     width = k_width + value_width(d.shape);
  auto const steps = ring_steps(d.shape);
  // What a window hides all of is passed on without being read; compute looks at it once, so that somebody waits for
  // it.
  TensorRef const unread{new_tensor(qualified("attention.unread"), TensorRole::temporary, program_.precision, 1, 1), 0,
                         0};
  TensorRef kv = joined_keys(d);
  AttentionData now = d;
  std::vector<DimRange> written;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    if (steps[s].empty()) pack(kv, 1, 1, width, unread, 1, "attention.kv");
    // The next keys are on their way while these are computed with.
    TensorRef const next = s + 1 < steps.size() ? ring_shift(kv, rows, width, "attention.kv") : TensorRef{};
    if (s > 0) now.k = columns(kv, 0, width), now.v = columns(kv, k_width, width);
    for (ContextBlock const& block : steps[s]) {
      block_forward(now, block, meets_any(written, block.q));
      written.push_back(block.q);
    }
    kv = next;
  }
}

void GraphBuilder::ring_backward(AttentionData const& d, AttentionGradients const& g) {
  std::int64_t const rows = d.shape.seq_k * d.shape.batch, k_width = key_width(d.shape), v_width = value_width(d.shape),
                     width = k_width + v_width;
  auto const steps = ring_steps(d.shape);
  TensorRef const unread{new_tensor(qualified("attention.unread"), TensorRole::temporary, program_.precision, 1, 1), 0,
                         0};
  TensorRef kv = joined_keys(d), sum;
  AttentionData now = d;
  AttentionGradients part = g;
  std::vector<DimRange> queries;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    TensorRef const next = s + 1 < steps.size() ? ring_shift(kv, rows, width, "attention.kv") : TensorRef{};
    if (s > 0) now.k = columns(kv, 0, width), now.v = columns(kv, k_width, width);
    // What this rank adds is computed while the sum of the ranks before it arrives.
    TensorRef const own{new_tensor(qualified("attention.dkv"), TensorRole::temporary, program_.precision, rows, width),
                        0, 0};
    part.dk = columns(own, 0, width), part.dv = columns(own, k_width, width);
    std::vector<DimRange> keys;
    if (steps[s].empty()) {
      pack(kv, 1, 1, width, unread, 1, "attention.kv");
      pack(sum, 1, 1, width, unread, 1, "attention.dkv");
    }
    for (ContextBlock const& block : steps[s]) {
      bool const more_keys = meets_any(keys, block.k);
      block_backward(now, part, block, meets_any(queries, block.q), more_keys);
      queries.push_back(block.q);
      if (!more_keys) keys.push_back(block.k);
    }
    if (s == 0) sum = own;
    for (DimRange const& range : keys) {
      if (s == 0) continue;
      TensorRef const here = block_rows(sum, range);
      emit(make_op(OpKind::add, BlockShape{range.size * d.shape.batch, width, 1}, "attention.dkv.sum",
                   {here, block_rows(own, range)}, {here}));
    }
    sum = ring_shift(sum, rows, width, "attention.dkv");
    kv = next;
  }
  // After as many hops as there are ranks the sums are at home.
  pack(sum, rows, k_width, width, g.dk, stride_of(g.dk), "attention.dk");
  pack(columns(sum, k_width, 0), rows, v_width, width, g.dv, stride_of(g.dv), "attention.dv");
}

// --- gathered keys ---

std::vector<ContextBlock> GraphBuilder::gathered_pieces(AttentionOpShape const& s) const {
  return gathered_blocks(context_layout(model_, experiment_.cut.cp_method), program_.seq, program_.degree[cp_axis],
                         program_.coordinate[cp_axis], {s.mask, s.window});
}

void GraphBuilder::gathered_forward(AttentionData const& d) {
  for (ContextBlock const& block : gathered_pieces(d.shape)) block_forward(d, block, false);
}

void GraphBuilder::gathered_backward(AttentionData const& d, AttentionGradients const& g) {
  auto blocks = gathered_pieces(d.shape);
  // The first block writes the gradients of every key, zeros where its queries see none; the others add to them.
  std::ranges::sort(blocks, std::greater<>{}, [](ContextBlock const& b) { return b.k.size; });
  blocks.front().k.size = program_.seq;
  blocks.front().rule = {d.shape.mask, d.shape.window};
  for (ContextBlock const& block : blocks) block_backward(d, g, block, false, &block != &blocks.front());
}

// --- some of the heads over the whole sequence ---

Value GraphBuilder::attend_with_some_heads(AttentionData const& local, AttentionParts const& gradients,
                                           std::int64_t rows, Layout const& layout) {
  std::int64_t const n = program_.degree[cp_axis];
  AttentionData d = local;
  AttentionOpShape& s = d.shape;
  s.seq_q = s.seq_k = program_.seq;
  s.heads /= n, s.kv_heads /= n;
  s.visible_pairs *= static_cast<double>(n), s.full_pairs *= static_cast<double>(n);
  std::array<std::int64_t, 3> const width{local.shape.heads * local.shape.head_dim, key_width(local.shape),
                                          value_width(local.shape)};
  std::array<char const*, 3> const names{"attention.q", "attention.k", "attention.v"};
  std::array<TensorRef, 3> const parts{local.q, local.k, local.v}, targets{gradients.q, gradients.k, gradients.v};
  std::array<Value, 3> by_rows, by_heads;
  for (std::size_t i = 0; i < 3; ++i) by_rows[i] = slice(parts[i], rows, width[i], layout, names[i]);
  on_backward([=, this] {
    for (std::size_t i = 0; i < 3; ++i) unslice(by_rows[i], targets[i], names[i]);
  });
  Layout heads = layout;
  heads[cp_axis] = Shard{inner_feature_dim};
  for (std::size_t i = 0; i < 3; ++i) by_heads[i] = redistribute(by_rows[i], heads, names[i]);
  d.q = state(by_heads[0]).ref, d.k = state(by_heads[1]).ref, d.v = state(by_heads[2]).ref;
  Value const out = attention_output(s, rows * n, heads);
  d.out = state(out).ref, d.lse = log_sum_exp(s);
  whole_forward(d);
  on_backward([=, this] {
    std::array<TensorRef, 3> g;
    for (std::size_t i = 0; i < 3; ++i)
      g[i] = {new_tensor(qualified(names[i]) + ".gradient", TensorRole::temporary, program_.precision, rows * n,
                         width[i] / n),
              0, 0};
    whole_backward(d, {take_gradient(out), g[0], g[1], g[2]});
    for (std::size_t i = 0; i < 3; ++i) accumulate(by_heads[i], g[i], heads);
  });
  return redistribute(out, layout, "attention.heads");
}

}  // namespace shardbench
