// Who goes where: the router's choice, the places of the rows, and the counts that ranks tell one another.
#include <fmt/format.h>

#include <algorithm>

#include "harness/config/size_rules.hpp"
#include "harness/program/graph/context_blocks.hpp"
#include "harness/program/graph/graph_builder.hpp"
#include "harness/program/graph/routing_load.hpp"

namespace shardbench {

namespace {

constexpr auto tp_axis = static_cast<std::size_t>(Axis::tp);
constexpr auto ep_axis = static_cast<std::size_t>(Axis::ep);
constexpr auto cp_axis = static_cast<std::size_t>(Axis::cp);

}  // namespace

TensorRef GraphBuilder::constant(std::string const& name, Dtype dtype, std::int64_t count, Constant contents) {
  // One buffer serves all layers and chunks that name it.
  auto const same = [&](Constant const& c) {
    return program_.tensors[static_cast<std::size_t>(c.tensor)].name == name;
  };
  auto const it = std::ranges::find_if(program_.inputs.constants, same);
  if (it != program_.inputs.constants.end()) return {it->tensor, 0, 0};
  contents.tensor = new_tensor(name, TensorRole::buffer, dtype, count, 1);
  program_.tensors[static_cast<std::size_t>(contents.tensor)].chunk = -1;
  program_.inputs.constants.push_back(std::move(contents));
  return {program_.inputs.constants.back().tensor, 0, 0};
}

RouterRule GraphBuilder::router_rule() const {
  MoeConfig const& m = *model_.moe;
  // DeepSeek-V2 compares groups by their best expert, V3 by the sum of the best two (their model code).
  return {m.experts, m.top_k,      m.sigmoid_router,      m.normalize_top_k,
          m.groups,  m.top_groups, m.router_bias ? 2 : 1, static_cast<float>(m.routed_scale)};
}

GraphBuilder::MoeSizes GraphBuilder::moe_sizes(std::int64_t tokens) const {
  MoeConfig const& moe = *model_.moe;
  bool const learned = experiment_.routing == RoutingKind::learned;
  std::int64_t const ep = program_.degree[ep_axis], tp = program_.degree[tp_axis], n = moe.experts;
  MoeSizes s;
  s.tokens = tokens;
  s.copies = program_.etp;
  s.slots = moe.top_k * s.copies;
  s.sent = tokens * s.slots;
  s.peers = ep * s.copies;
  s.local_experts = n / ep;
  s.router = {router_rule(), tokens, 1, 0};
  std::int64_t const parts = tp * program_.degree[cp_axis];  // of a microbatch
  if (experiment_.capacity > 0) s.capacity = expert_capacity(tokens * parts, moe.top_k, n, experiment_.capacity);
  RoutingLoad const load = routing_load(moe, experiment_.router_skew);
  double const all = static_cast<double>(tokens * parts);
  auto const kept = [&](std::int64_t first, std::int64_t count) {
    double rows = 0;
    for (std::int64_t e = first; e < first + count; ++e) {
      double const mine = load.rows(all, e, 1);
      rows += s.capacity > 0 ? std::min(mine, static_cast<double>(s.capacity)) : mine;
    }
    return rows / static_cast<double>(parts);
  };
  std::int64_t const first = program_.coordinate[ep_axis] * s.local_experts;
  s.expected_sent = static_cast<double>(s.copies) * kept(0, n);
  s.expected = static_cast<double>(s.peers) * kept(first, s.local_experts);
  double busiest = 0;
  for (std::int64_t r = 0; r < ep; ++r) busiest = std::max(busiest, kept(r * s.local_experts, s.local_experts));
  s.imbalance = busiest * static_cast<double>(ep) / kept(0, n);
  // What may arrive from one peer: a token visits an expert once; prescribed loads are known, capacity is a limit.
  std::int64_t from_peer = tokens * std::min(moe.top_k, s.local_experts);
  std::int64_t const ranges = program_.micro_batch * (program_.degree[cp_axis] > 1 ? 2 : 1);
  if (!learned)
    from_peer =
        std::min(from_peer, ranges * load.most_rows((tokens + ranges - 1) / ranges, first, s.local_experts) +
                                (ranges > program_.micro_batch ? load.most_rows(1, first, s.local_experts) : 0));
  if (s.capacity > 0) from_peer = std::min(from_peer, s.local_experts * std::min(s.capacity, tokens));
  s.bound = s.peers * from_peer;
  if (!learned) {
    s.router.period = static_cast<std::int32_t>(load.period);
    s.router.rotation = static_cast<std::int32_t>(layer_ * load.stride % load.period);
  }
  return s;
}

void GraphBuilder::route(Value logits, MoeSizes& s) {
  MoeConfig const& moe = *model_.moe;
  s.weights = temporary("moe.weights", Dtype::f32, s.tokens, moe.top_k);
  s.indices = temporary("moe.indices", Dtype::i32, s.tokens, moe.top_k);
  TensorRef bias, numbers, shares;
  if (moe.router_bias)
    bias = constant(qualified("moe.router.bias"), Dtype::f32, moe.experts,
                    {.key = qualified("moe.router.bias"), .scale = 0.02f});
  if (experiment_.routing != RoutingKind::learned) {
    // A rank that holds a slice of the sequence reads its slice of the numbers.
    bool const slice = is_shard(state(logits).layout[tp_axis], sequence_dim);
    numbers = {program_.inputs.numbers.tensor, slice ? program_.coordinate[tp_axis] * s.tokens : 0, 0};
    shares = constant("moe.shares", Dtype::i32, moe.experts + 1,
                      {.integers = routing_load(moe, experiment_.router_skew).shares});
  }
  emit(make_op(OpKind::router_forward, s.router, "moe.router", {state(logits).ref, bias, numbers, shares},
               {s.weights, s.indices}));
  place_rows(s);
}

// A capacity is the microbatch's, and experts take tokens in its order, of which the tensor and context axes make
// pieces: all ranks learn what each piece chose, and a piece comes ahead of the tokens that it starts before.
Op GraphBuilder::capped_rows(MoeSizes const& s, RowsShape shape) {
  std::int64_t const experts = model_.moe->experts, tp = program_.degree[tp_axis], cp = program_.degree[cp_axis];
  ShardLayout const layout = context_layout(model_, experiment_.cut.cp_method);
  auto const pieces_of = [&](std::int64_t c, std::int64_t t) {
    return global_rows(context_pieces(layout, program_.seq, cp, c), program_.micro_batch, t * s.tokens, s.tokens);
  };
  auto const mine = pieces_of(program_.coordinate[cp_axis], program_.coordinate[tp_axis]);
  auto const count = static_cast<std::int64_t>(mine.size());
  TensorRef const wanted = temporary("moe.wanted", Dtype::i32, count, experts),
                  places = temporary("moe.places", Dtype::i32, s.tokens, shape.top_k);
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    RowsShape const plain{mine[static_cast<std::size_t>(i)].size, shape.top_k, experts, 1, 1, 0, 0};
    emit(make_op(OpKind::expert_rows, plain, "moe.wanted", {{s.indices.id, at * shape.top_k, 0}, {}, {}},
                 {{places.id, at * shape.top_k, 0}, {wanted.id, i * experts, 0}}));
    at += plain.tokens;
  }
  auto const gather = [&](std::string const& axis, std::int64_t rows, TensorRef part) {
    TensorRef const whole = temporary("moe.before." + axis, Dtype::i32, rows, experts);
    emit(make_collective(OpKind::all_gather, group_id(axis), rows * experts, Dtype::i32, "moe.wanted", part, whole));
    return whole;
  };
  TensorRef const over_tp = tp > 1 ? gather("tp", tp * count, wanted) : wanted;
  TensorRef const before = cp > 1 ? gather("cp", cp * tp * count, over_tp) : over_tp;
  Constant from;
  for (std::int64_t c = 0; c < cp; ++c)
    for (std::int64_t t = 0; t < tp; ++t)
      for (DimRange const& other : pieces_of(c, t)) {
        bool const own = c == program_.coordinate[cp_axis] && t == program_.coordinate[tp_axis];
        std::int64_t ahead_of = s.tokens, end = s.tokens;  // own pieces count as the tokens themselves do
        for (auto piece = mine.rbegin(); piece != mine.rend() && !own; ++piece) {
          end -= piece->size;
          if (other.begin < piece->begin) ahead_of = end;
        }
        from.integers.push_back(static_cast<std::int32_t>(ahead_of));
      }
  shape.earlier = cp * tp * count;
  TensorRef const starts = constant("moe.pieces", Dtype::i32, shape.earlier, std::move(from));
  Op op = make_op(OpKind::expert_rows, shape, "moe.rows", {s.indices, before, starts}, {s.rows, s.counts});
  if (cp > 1 && tp > 1) op.after.push_back(over_tp);
  return op;
}

void GraphBuilder::place_rows(MoeSizes& s) {
  MoeConfig const& moe = *model_.moe;
  std::int64_t const parts = program_.degree[tp_axis] * program_.degree[cp_axis], all = moe.experts * s.copies;
  s.rows = temporary("moe.rows", Dtype::i32, s.tokens, s.slots);
  s.counts = temporary("moe.counts", Dtype::i32, s.peers > 1 ? 2 : 1, all);
  RowsShape const shape{s.tokens, moe.top_k, moe.experts, program_.degree[ep_axis], s.copies, 0, s.capacity};
  if (s.capacity > 0 && parts > 1)
    emit(capped_rows(s, shape));
  else
    emit(make_op(OpKind::expert_rows, shape, "moe.rows", {s.indices, {}, {}}, {s.rows, s.counts}));
  if (s.peers > 1)
    emit(make_collective(OpKind::all_to_all, group_id("ep"), all, Dtype::i32, "moe.counts", s.counts,
                         {s.counts.id, all, 0}));
  Op fetch = make_op(OpKind::fetch_counts, shape, "moe.counts", {s.counts}, {});
  fetch.host_dependent = true;
  emit(std::move(fetch));
  if (s.peers == 1 || s.local_experts == 1) return;
  s.arrivals = temporary("moe.arrivals", Dtype::i32, s.bound, 1);
  program_.tensors[static_cast<std::size_t>(s.arrivals.id)].expected_rows = s.expected;
  RowsShape const arrived{s.bound, 1, s.local_experts, s.peers, 1, 0, 0};
  Op sort = make_op(OpKind::source_rows, arrived, "moe.arrivals", {{s.counts.id, all, 0}, s.counts}, {s.arrivals});
  sort.host_dependent = true;
  emit(std::move(sort));
}

void GraphBuilder::router_gradient(Value logits, MoeSizes const& s, TensorRef dweights) {
  TensorRef const dlogits = temporary("moe.dlogits", program_.precision, s.tokens, s.router.rule.experts);
  emit(make_op(OpKind::router_backward, s.router, "moe.router", {state(logits).ref, s.indices, dweights}, {dlogits}));
  accumulate(logits, dlogits, state(logits).layout);
}

Value GraphBuilder::gate(Value y, Value x, std::string const& name) {
  y = redistribute(y, state(x).layout, state(y).name + ".reduce");
  Value const logit = linear(x, {name, name, {{"", 1, 1, 0, false}}, model_.hidden, false, -1});
  // A gate is a router over one expert: its weight is the sigmoid, and the rows stay where they are.
  MoeSizes s;
  s.tokens = s.sent = state(y).rows;
  s.slots = 1;
  s.expected_sent = static_cast<double>(s.tokens);
  s.router = {{.experts = 1, .sigmoid = true}, s.tokens, 1, 0};
  s.weights = temporary(name + ".weights", Dtype::f32, s.tokens, 1);
  s.indices = temporary(name + ".indices", Dtype::i32, s.tokens, 1);
  emit(make_op(OpKind::router_forward, s.router, name, {state(logit).ref, {}, {}, {}}, {s.weights, s.indices}));
  TensorRef const out = move_rows(OpKind::unpermute, state(y).ref, s.weights, s, name);
  Value const z = value_of(out, name, s.tokens, model_.hidden, model_.hidden, state(x).layout);
  on_backward([=, this] {
    TensorRef const dz = take_gradient(z);
    TensorRef const dweights = temporary(name + ".dweights", Dtype::f32, s.tokens, 1);
    PermuteShape const shape{s.tokens, 1, 1, model_.hidden, s.sent, s.expected_sent, s.expected_sent, false};
    emit(make_op(OpKind::combine_weights, shape, name, {dz, state(y).ref, {}}, {dweights}));
    router_gradient(logit, s, dweights);
    accumulate(y, move_rows(OpKind::permute, dz, s.weights, s, name), state(y).layout);
  });
  return z;
}

}  // namespace shardbench
