#include "harness/program/graph/context.hpp"

#include <algorithm>
#include <array>

#include "harness/program/graph/context_blocks.hpp"
#include "harness/program/graph/inference.hpp"
#include "harness/program/graph/module_scope.hpp"
#include "harness/program/graph/redistribute.hpp"

namespace shardbench {

namespace {

/// What attention works on in this rank: rows of q, k and v (packed or not), the output and its log-sum-exp.
struct AttentionData {
  AttentionOpShape shape;
  TensorRef q, k, v, out{}, lse{};
  std::int64_t k_width() const { return shape.kv_heads * shape.head_dim; }
  std::int64_t v_width() const { return shape.kv_heads * shape.value_dim; }
  std::int64_t kv_width() const { return k_width() + v_width(); }
  /// Goes on with keys and values that lie side by side.
  void take_keys(TensorRef kv) { k = columns(kv, 0, kv_width()), v = columns(kv, k_width(), kv_width()); }
};

/// Gradients that attention's backward reads and writes.
struct AttentionGradients {
  TensorRef dout, dq, dk, dv;
};

bool meet(DimRange a, DimRange b) { return a.begin < b.begin + b.size && b.begin < a.begin + a.size; }

bool meets_any(std::vector<DimRange> const& ranges, DimRange range) {
  return std::ranges::any_of(ranges, [&](DimRange r) { return meet(r, range); });
}

std::int64_t stride_of(Tape const& t, TensorRef x) { return x.stride > 0 ? x.stride : t.program.tensors[x.id].cols; }

/// x with its stride written out: pieces of it keep the rows' distance.
TensorRef strided(Tape const& t, TensorRef x) { return {x.id, x.offset, stride_of(t, x)}; }

Value attention_output(Tape& t, AttentionOpShape const& shape, std::int64_t rows, Layout const& layout) {
  std::int64_t const width = shape.heads * shape.value_dim;
  std::int64_t const parts = is_shard(layout[Axis::tp], feature_dim) ? t.program.degree[Axis::tp] : 1;
  return t.value("attention", rows, width, layout, width * parts);
}

TensorRef log_sum_exp(Tape& t, AttentionOpShape const& s) {
  return t.temporary("attention.lse", Dtype::f32, s.batch * s.heads, s.seq_q);
}

void whole_forward(Tape& t, AttentionData const& d) {
  t.emit(OpKind::attention_forward, d.shape, "attention", {d.q, d.k, d.v}, {d.out, d.lse});
}

void whole_backward(Tape& t, AttentionData const& d, AttentionGradients const& g) {
  t.emit(OpKind::attention_backward, d.shape, "attention", {d.q, d.k, d.v, d.out, g.dout, d.lse}, {g.dq, g.dk, g.dv});
}

/// Keys and values side by side in a tensor of their own, as they travel.
TensorRef joined_keys(Tape& t, AttentionData const& d) {
  std::int64_t const rows = d.shape.seq_k * d.shape.batch, width = d.kv_width();
  TensorRef const kv = t.temporary("attention.kv", rows, width);
  pack(t, strided(t, d.k), columns(kv, 0, width), rows, d.k_width(), "attention.k");
  pack(t, strided(t, d.v), columns(kv, d.k_width(), width), rows, d.v_width(), "attention.v");
  return kv;
}

/// Gradients of keys and values side by side, to where each belongs.
void part_gradients(Tape& t, AttentionData const& d, TensorRef dkv, std::int64_t rows, TensorRef dk, TensorRef dv) {
  std::int64_t const width = d.kv_width();
  pack(t, columns(dkv, 0, width), strided(t, dk), rows, d.k_width(), "attention.dk");
  pack(t, columns(dkv, d.k_width(), width), strided(t, dv), rows, d.v_width(), "attention.dv");
}

// --- blocks ---

AttentionOpShape block_shape(AttentionData const& d, ContextBlock const& block) {
  AttentionOpShape s = d.shape;
  s.seq_q = block.q.size, s.seq_k = block.k.size;
  s.mask = block.rule.mask, s.window = block.rule.window, s.q_offset = block.q_offset;
  s.visible_pairs = block.pairs;
  s.full_pairs = d.shape.full_pairs * block.pairs / d.shape.visible_pairs;
  s.statistic_stride = d.shape.seq_q;
  return s;
}

TensorRef block_rows(Tape const& t, TensorRef x, DimRange rows) {
  std::int64_t const stride = stride_of(t, x);
  return columns(x, rows.begin * t.program.micro_batch * stride, stride);
}

/// `merges`: with what other blocks have written for the same queries.
void block_forward(Tape& t, AttentionData const& d, ContextBlock const& block, bool merges) {
  AttentionOpShape const shape = block_shape(d, block);
  std::vector<TensorRef> const inputs{block_rows(t, d.q, block.q), block_rows(t, d.k, block.k),
                                      block_rows(t, d.v, block.k)};
  TensorRef const out = block_rows(t, d.out, block.q), lse = behind(d.lse, block.q.begin);
  if (!merges) {
    t.emit(OpKind::attention_forward, shape, "attention", inputs, {out, lse});
    return;
  }
  AttentionOpShape alone = shape;
  alone.statistic_stride = 0;
  TensorRef const part = t.temporary("attention.block", shape.seq_q * shape.batch, shape.heads * shape.value_dim);
  TensorRef const part_lse = log_sum_exp(t, alone);
  t.emit(OpKind::attention_forward, alone, "attention", inputs, {part, part_lse});
  t.emit(OpKind::attention_merge, shape, "attention.merge", {part, part_lse}, {out, lse});
}

/// `add_q`, `add_kv`: to what other blocks have written there.
void block_backward(Tape& t, AttentionData const& d, AttentionGradients const& g, ContextBlock const& block, bool add_q,
                    bool add_kv) {
  AttentionOpShape shape = block_shape(d, block);
  shape.add_q = add_q, shape.add_kv = add_kv;
  t.emit(OpKind::attention_backward, shape, "attention",
         {block_rows(t, d.q, block.q), block_rows(t, d.k, block.k), block_rows(t, d.v, block.k),
          block_rows(t, d.out, block.q), block_rows(t, g.dout, block.q), behind(d.lse, block.q.begin)},
         {block_rows(t, g.dq, block.q), block_rows(t, g.dk, block.k), block_rows(t, g.dv, block.k)});
}

// --- ring: keys and values travel around it, their gradients with them ---

/// The blocks of this rank, as `blocks_of` cuts the sequence into them.
auto own_blocks_of(Tape const& t, AttentionOpShape const& s, auto const& blocks_of) {
  return blocks_of(context_layout(t.model, t.experiment.cut.cp_method), t.program.seq, t.program.degree[Axis::cp],
                   t.program.coordinate[Axis::cp], {s.mask, s.window});
}

TensorRef ring_shift(Tape& t, TensorRef x, std::int64_t rows, std::int64_t cols, std::string const& name) {
  TensorRef const y = t.temporary(name, rows, cols);
  t.emit_collective(OpKind::ring_shift, id_of(GroupKind::cp), rows * cols, name, x, y);
  return y;
}

void ring_forward(Tape& t, AttentionData const& d) {
  std::int64_t const rows = d.shape.seq_k * d.shape.batch, width = d.kv_width();
  auto const steps = own_blocks_of(t, d.shape, ring_blocks);
  // What a window hides all of is passed on without being read; compute looks at it once, so that somebody waits for
  // it.
  TensorRef const unread = t.temporary("attention.unread", 1, 1);
  TensorRef kv = joined_keys(t, d);
  AttentionData now = d;
  std::vector<DimRange> written;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    if (steps[s].empty()) pack(t, columns(kv, 0, width), unread, 1, 1, "attention.kv");
    // The next keys are on their way while these are computed with.
    TensorRef const next = s + 1 < steps.size() ? ring_shift(t, kv, rows, width, "attention.kv") : TensorRef{};
    if (s > 0) now.take_keys(kv);
    for (ContextBlock const& block : steps[s]) {
      block_forward(t, now, block, meets_any(written, block.q));
      written.push_back(block.q);
    }
    kv = next;
  }
}

void ring_backward(Tape& t, AttentionData const& d, AttentionGradients const& g) {
  std::int64_t const rows = d.shape.seq_k * d.shape.batch, width = d.kv_width();
  auto const steps = own_blocks_of(t, d.shape, ring_blocks);
  TensorRef const unread = t.temporary("attention.unread", 1, 1);
  TensorRef kv = joined_keys(t, d), sum;
  AttentionData now = d;
  AttentionGradients part = g;
  std::vector<DimRange> queries;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    TensorRef const next = s + 1 < steps.size() ? ring_shift(t, kv, rows, width, "attention.kv") : TensorRef{};
    if (s > 0) now.take_keys(kv);
    // What this rank adds is computed while the sum of the ranks before it arrives.
    TensorRef const own = t.temporary("attention.dkv", rows, width);
    part.dk = columns(own, 0, width), part.dv = columns(own, d.k_width(), width);
    std::vector<DimRange> keys;
    if (steps[s].empty()) {
      pack(t, columns(kv, 0, width), unread, 1, 1, "attention.kv");
      pack(t, columns(sum, 0, width), unread, 1, 1, "attention.dkv");
    }
    for (ContextBlock const& block : steps[s]) {
      bool const more_keys = meets_any(keys, block.k);
      block_backward(t, now, part, block, meets_any(queries, block.q), more_keys);
      queries.push_back(block.q);
      if (!more_keys) keys.push_back(block.k);
    }
    if (s == 0)
      sum = own;
    else
      for (DimRange const& range : keys) {
        TensorRef const here = block_rows(t, sum, range);
        t.emit(OpKind::add, BlockShape{range.size * d.shape.batch, width}, "attention.dkv.sum",
               {here, block_rows(t, own, range)}, {here});
      }
    sum = ring_shift(t, sum, rows, width, "attention.dkv");
    kv = next;
  }
  // The sums were shifted once a step, all around the ring: each rank holds those of its own keys again.
  part_gradients(t, d, sum, rows, g.dk, g.dv);
}

Value attend_here(Tape& t, AttentionData d, AttentionParts const& gradients, std::int64_t rows, Layout const& layout) {
  bool const ring = t.program.degree[Axis::cp] > 1;
  Value const out = attention_output(t, d.shape, rows, layout);
  d.out = t[out].ref;
  if (ring || !caches(t)) d.lse = log_sum_exp(t, d.shape);  // what merges of blocks and the backward pass need
  (ring ? ring_forward : whole_forward)(t, d);
  t.on_backward(out, [=, &t](TensorRef dout) {
    (ring ? ring_backward : whole_backward)(t, d, {dout, gradients.q, gradients.k, gradients.v});
  });
  return out;
}

// --- gathered keys: each rank's queries over the whole sequence ---

void gathered_backward(Tape& t, AttentionData const& d, AttentionGradients const& g) {
  auto blocks = own_blocks_of(t, d.shape, gathered_blocks);
  // The first block writes the gradients of every key, zeros where its queries see none; the others add to them.
  std::ranges::sort(blocks, std::greater<>{}, [](ContextBlock const& b) { return b.k.size; });
  blocks.front().k.size = t.program.seq;
  blocks.front().rule = {d.shape.mask, d.shape.window};
  for (ContextBlock const& block : blocks) block_backward(t, d, g, block, false, &block != &blocks.front());
}

Value attend_to_gathered_keys(Tape& t, AttentionData d, AttentionParts const& gradients, std::int64_t rows,
                              Layout const& layout) {
  std::int64_t const width = d.kv_width();
  Value const kv = t.value_of(joined_keys(t, d), "attention.kv", rows, width, layout);
  t.on_backward([=, &t] { part_gradients(t, d, t.take_gradient(kv), rows, gradients.k, gradients.v); });
  Value const keys = redistribute_along(t, kv, Axis::cp, Replicate{}, "attention.gather");
  d.take_keys(t[keys].ref);
  Value const out = attention_output(t, d.shape, rows, layout);
  d.out = t[out].ref, d.lse = log_sum_exp(t, d.shape);
  for (ContextBlock const& block : own_blocks_of(t, d.shape, gathered_blocks)) block_forward(t, d, block, false);
  t.on_backward([=, &t] {
    TensorRef const dkv = t.temporary("attention.gathered.dkv", t.program.seq * d.shape.batch, width);
    gathered_backward(t, d,
                      {t.take_gradient(out), gradients.q, columns(dkv, 0, width), columns(dkv, d.k_width(), width)});
    // Each rank has seen its own queries only.
    t.accumulate(keys, dkv, with(layout, Axis::cp, Partial{}));
  });
  return out;
}

// --- some of the heads over the whole sequence (Ulysses) ---

Value attend_with_some_heads(Tape& t, AttentionData d, AttentionParts const& gradients, std::int64_t rows,
                             Layout const& layout) {
  std::int64_t const n = t.program.degree[Axis::cp];
  AttentionData const local = d;
  AttentionOpShape& s = d.shape;
  s.seq_q = s.seq_k = t.program.seq;
  s.heads /= n, s.kv_heads /= n;
  s.visible_pairs *= static_cast<double>(n), s.full_pairs *= static_cast<double>(n);
  std::array<std::int64_t, 3> const width{local.shape.heads * local.shape.head_dim, local.k_width(), local.v_width()};
  std::array<char const*, 3> const names{"attention.q", "attention.k", "attention.v"};
  std::array<TensorRef, 3> const parts{local.q, local.k, local.v}, targets{gradients.q, gradients.k, gradients.v};
  std::array<Value, 3> by_rows, by_heads;
  for (std::size_t i = 0; i < 3; ++i) {
    by_rows[i] = t.value(names[i], rows, width[i], layout);
    pack(t, strided(t, parts[i]), t[by_rows[i]].ref, rows, width[i], names[i]);
  }
  t.on_backward([=, &t] {
    for (std::size_t i = 0; i < 3; ++i)
      pack(t, t.take_gradient(by_rows[i]), strided(t, targets[i]), rows, width[i], names[i]);
  });
  Layout const heads = with(layout, Axis::cp, Shard{inner_feature_dim});
  for (std::size_t i = 0; i < 3; ++i) by_heads[i] = t.redistribute(by_rows[i], heads, names[i]);
  d.q = t[by_heads[0]].ref, d.k = t[by_heads[1]].ref, d.v = t[by_heads[2]].ref;
  Value const out = attention_output(t, s, rows * n, heads);
  d.out = t[out].ref, d.lse = log_sum_exp(t, s);
  whole_forward(t, d);
  t.on_backward([=, &t] {
    std::array<TensorRef, 3> g;
    for (std::size_t i = 0; i < 3; ++i) g[i] = t.temporary(std::string(names[i]) + ".gradient", rows * n, width[i] / n);
    whole_backward(t, d, {t.take_gradient(out), g[0], g[1], g[2]});
    for (std::size_t i = 0; i < 3; ++i) t.accumulate(by_heads[i], g[i], heads);
  });
  return t.redistribute(out, layout, "attention.heads");
}

}  // namespace

Value attend(Tape& t, AttentionOpShape const& shape, AttentionParts const& parts, AttentionParts const& gradients,
             std::int64_t rows, Layout const& layout) {
  bool const cut = t.program.degree[Axis::cp] > 1;
  CpMethod const method = t.experiment.cut.cp_method;
  auto const method_of_cut = cut && method == CpMethod::ulysses      ? attend_with_some_heads
                             : cut && method == CpMethod::all_gather ? attend_to_gathered_keys
                                                                     : attend_here;
  ModuleScope const core(t, RecomputeModule::core_attn);
  return method_of_cut(t, {shape, parts.q, parts.k, parts.v}, gradients, rows, layout);
}

}  // namespace shardbench
