// Who goes where: the router's choice, the places of the rows, and the counts that ranks tell one another.
#include "harness/program/graph/routing.hpp"

#include <algorithm>

#include "harness/config/size_rules.hpp"
#include "harness/program/graph/context_blocks.hpp"
#include "harness/program/graph/linear.hpp"
#include "harness/program/graph/redistribute.hpp"
#include "harness/program/graph/routing_load.hpp"

namespace shardbench {

namespace {

bool is_learned(Tape const& t) { return t.experiment.routing == RoutingKind::learned; }

/// A buffer of these contents; one serves all layers and chunks that name it.
TensorRef constant(Tape& t, std::string const& name, Dtype dtype, std::int64_t count, Constant contents) {
  auto const it = std::ranges::find(t.program.inputs.constants, name,
                                    [&](Constant const& c) { return t.program.tensors[c.tensor].name; });
  if (it != t.program.inputs.constants.end()) return {it->tensor};
  contents.tensor = t.new_tensor(name, TensorRole::buffer, dtype, count, 1);
  t.program.tensors[contents.tensor].chunk = all_chunks;
  t.program.inputs.constants.push_back(std::move(contents));
  return {t.program.inputs.constants.back().tensor};
}

RouterRule router_rule(MoeConfig const& m) {
  // DeepSeek-V2 compares groups by their best expert, V3 by the sum of the best two (their model code).
  return {m.experts, m.top_k,      m.sigmoid_router,      m.normalize_top_k,
          m.groups,  m.top_groups, m.router_bias ? 2 : 1, static_cast<float>(m.routed_scale)};
}

/// Ranks that a microbatch's tokens are cut over.
std::int64_t token_parts(StepProgram const& p) { return p.degree[Axis::tp] * p.degree[Axis::cp]; }

/// What may arrive from one peer: a token visits an expert once; prescribed loads are known, capacity is a limit.
std::int64_t most_rows_of_peer(Tape const& t, Routing const& r, RoutingLoad const& load, std::int64_t first) {
  std::int64_t const batch = t.program.micro_batch, local = r.local_experts;
  std::int64_t rows = r.tokens * std::min(t.model.moe->top_k, local);
  std::int64_t const ranges = batch * (t.program.degree[Axis::cp] > 1 ? 2 : 1);
  if (!is_learned(t))
    rows = std::min(rows, ranges * load.most_rows((r.tokens + ranges - 1) / ranges, first, local) +
                              (ranges > batch ? load.most_rows(1, first, local) : 0));
  return r.capacity > 0 ? std::min(rows, local * std::min(r.capacity, r.tokens)) : rows;
}

Routing routing_sizes(Tape const& t, std::int64_t tokens) {
  MoeConfig const& moe = *t.model.moe;
  std::int64_t const ep = t.program.degree[Axis::ep], n = moe.experts, parts = token_parts(t.program);
  Routing r;
  r.tokens = tokens;
  r.copies = t.program.etp;
  r.slots = moe.top_k * r.copies;
  r.sent = tokens * r.slots;
  r.peers = ep * r.copies;
  r.local_experts = n / ep;
  r.router = {router_rule(moe), tokens};
  if (t.experiment.capacity > 0) r.capacity = expert_capacity(tokens * parts, moe.top_k, n, t.experiment.capacity);
  RoutingLoad const load = routing_load(moe, t.experiment.router_skew);
  double const all = static_cast<double>(tokens * parts);
  auto const kept = [&](std::int64_t first, std::int64_t count) {
    double rows = 0;
    for (std::int64_t e = first; e < first + count; ++e) {
      double const mine = load.rows(all, e, 1);
      rows += r.capacity > 0 ? std::min(mine, static_cast<double>(r.capacity)) : mine;
    }
    return rows / static_cast<double>(parts);
  };
  std::int64_t const first = t.program.coordinate[Axis::ep] * r.local_experts;
  r.expected_sent = static_cast<double>(r.copies) * kept(0, n);
  r.expected = static_cast<double>(r.peers) * kept(first, r.local_experts);
  double busiest = 0;
  for (std::int64_t rank = 0; rank < ep; ++rank)
    busiest = std::max(busiest, kept(rank * r.local_experts, r.local_experts));
  r.imbalance = busiest * static_cast<double>(ep) / kept(0, n);
  r.bound = r.peers * most_rows_of_peer(t, r, load, first);
  if (!is_learned(t)) {
    r.router.period = static_cast<std::int32_t>(load.period);
    r.router.rotation = static_cast<std::int32_t>(t.layer() * load.stride % load.period);
  }
  return r;
}

using Pieces = std::vector<DimRange>;

/// Where each piece of the microbatch comes in the order of this rank's tokens: ahead of those that begin behind it.
Constant piece_starts(Tape const& t, Routing const& r, Pieces const& mine, auto const& pieces_of) {
  StepProgram const& p = t.program;
  Constant from;
  for (std::int64_t c = 0; c < p.degree[Axis::cp]; ++c)
    for (std::int64_t s = 0; s < p.degree[Axis::tp]; ++s)
      for (DimRange const& other : pieces_of(c, s)) {
        bool const own = c == p.coordinate[Axis::cp] && s == p.coordinate[Axis::tp];
        std::int64_t ahead_of = r.tokens, end = r.tokens;  // own pieces count as the tokens themselves do
        for (auto piece = mine.rbegin(); piece != mine.rend() && !own; ++piece) {
          end -= piece->size;
          if (other.begin < piece->begin) ahead_of = end;
        }
        from.integers.push_back(static_cast<std::int32_t>(ahead_of));
      }
  return from;
}

// A capacity is the microbatch's, and experts take tokens in its order, of which the tensor and context axes make
// pieces: all ranks learn what each piece chose, and a piece comes ahead of the tokens that it starts before.
void place_capped_rows(Tape& t, Routing const& r, RowsShape shape) {
  StepProgram const& p = t.program;
  std::int64_t const experts = t.model.moe->experts, tp = p.degree[Axis::tp], cp = p.degree[Axis::cp];
  ShardLayout const layout = context_layout(t.model, t.experiment.cut.cp_method);
  auto const pieces_of = [&](std::int64_t context_rank, std::int64_t tensor_rank) {
    return global_rows(context_pieces(layout, p.seq, cp, context_rank), p.micro_batch, tensor_rank * r.tokens,
                       r.tokens);
  };
  Pieces const mine = pieces_of(p.coordinate[Axis::cp], p.coordinate[Axis::tp]);
  std::int64_t const count = std::ssize(mine);
  TensorRef const wanted = t.temporary("moe.wanted", Dtype::i32, count, experts),
                  places = t.temporary("moe.places", Dtype::i32, r.tokens, shape.top_k);
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    RowsShape const plain{mine[i].size, shape.top_k, experts};
    t.emit(OpKind::expert_rows, plain, "moe.wanted", {{r.indices.id, at * shape.top_k}, {}, {}},
           {behind(places, at * shape.top_k), behind(wanted, i * experts)});
    at += plain.tokens;
  }
  auto const gather = [&](Axis axis, std::int64_t rows, TensorRef part) {
    TensorRef const whole = t.temporary("moe.before." + std::string(to_string(axis)), Dtype::i32, rows, experts);
    t.emit(t.make_collective(OpKind::all_gather, id_of(group_of(axis)), rows * experts, Dtype::i32, "moe.wanted", part,
                             whole));
    return whole;
  };
  TensorRef const over_tp = tp > 1 ? gather(Axis::tp, tp * count, wanted) : wanted;
  TensorRef const before = cp > 1 ? gather(Axis::cp, cp * tp * count, over_tp) : over_tp;
  shape.earlier = cp * tp * count;
  TensorRef const starts = constant(t, "moe.pieces", Dtype::i32, shape.earlier, piece_starts(t, r, mine, pieces_of));
  Op& op = t.emit(OpKind::expert_rows, shape, "moe.rows", {r.indices, before, starts}, {r.rows, r.counts});
  if (cp > 1 && tp > 1) op.after.push_back(over_tp);
}

void place_rows(Tape& t, Routing& r) {
  MoeConfig const& moe = *t.model.moe;
  std::int64_t const all = moe.experts * r.copies;
  r.rows = t.temporary("moe.rows", Dtype::i32, r.tokens, r.slots);
  r.counts = t.temporary("moe.counts", Dtype::i32, r.peers > 1 ? 2 : 1, all);
  RowsShape const shape{r.tokens, moe.top_k, moe.experts, t.program.degree[Axis::ep], r.copies, 0, r.capacity};
  TensorRef const received = behind(r.counts, all);
  if (r.capacity > 0 && token_parts(t.program) > 1)
    place_capped_rows(t, r, shape);
  else
    t.emit(OpKind::expert_rows, shape, "moe.rows", {r.indices, {}, {}}, {r.rows, r.counts});
  if (r.peers > 1)
    t.emit(
        t.make_collective(OpKind::all_to_all, id_of(GroupKind::ep), all, Dtype::i32, "moe.counts", r.counts, received));
  t.emit(OpKind::fetch_counts, shape, "moe.counts", {r.counts}, {}).host_dependent = true;
  if (r.peers == 1 || r.local_experts == 1) return;
  r.arrivals = t.temporary("moe.arrivals", Dtype::i32, r.bound, 1);
  t.program.tensors[r.arrivals.id].expected_rows = r.expected;
  RowsShape const arrived{r.bound, 1, r.local_experts, r.peers};
  t.emit(OpKind::source_rows, arrived, "moe.arrivals", {received, r.counts}, {r.arrivals}).host_dependent = true;
}

}  // namespace

Routing route(Tape& t, Value logits, std::int64_t tokens) {
  MoeConfig const& moe = *t.model.moe;
  Routing r = routing_sizes(t, tokens);
  r.weights = t.temporary("moe.weights", Dtype::f32, r.tokens, moe.top_k);
  r.indices = t.temporary("moe.indices", Dtype::i32, r.tokens, moe.top_k);
  TensorRef bias, numbers, shares;
  if (moe.router_bias) {
    std::string const name = t.qualified("moe.router.bias");
    bias = constant(t, name, Dtype::f32, moe.experts, {.key = name, .scale = 0.02f});
  }
  if (!is_learned(t)) {
    numbers = own_part(t, t.program.inputs.numbers.tensor, logits, r.tokens);
    shares = constant(t, "moe.shares", Dtype::i32, moe.experts + 1,
                      {.integers = routing_load(moe, t.experiment.router_skew).shares});
  }
  t.emit(OpKind::router_forward, r.router, "moe.router", {t[logits].ref, bias, numbers, shares},
         {r.weights, r.indices});
  place_rows(t, r);
  return r;
}

void router_gradient(Tape& t, Value logits, Routing const& r, TensorRef dweights) {
  TensorRef const dlogits = t.temporary("moe.dlogits", r.tokens, r.router.rule.experts);
  t.emit(OpKind::router_backward, r.router, "moe.router", {t[logits].ref, r.indices, dweights}, {dlogits});
  t.accumulate(logits, dlogits);
}

TensorRef routed_rows(Tape& t, std::string const& name, std::int64_t bound, double expected, std::int64_t cols) {
  TensorRef const rows = t.temporary(name, bound, cols);
  t.program.tensors[rows.id].expected_rows = expected;
  return rows;
}

PermuteShape token_rows(Tape const& t, Routing const& r) {
  return {r.tokens, r.slots, r.copies, t.model.hidden, r.sent, static_cast<double>(r.tokens), r.expected_sent};
}

TensorRef move_rows(Tape& t, OpKind kind, TensorRef from, TensorRef weights, Routing const& r,
                    std::string const& name) {
  std::int64_t const cols = t.model.hidden;
  TensorRef const to = kind == OpKind::permute ? routed_rows(t, name + ".rows", r.sent, r.expected_sent, cols)
                                               : t.temporary(name + ".tokens", r.tokens, cols);
  t.emit(kind, token_rows(t, r), name, {from, r.rows, weights}, {to});
  return to;
}

Value gate(Tape& t, Value y, Value x, std::string const& name) {
  y = t.redistribute(y, t[x].layout, t[y].name + ".reduce");
  Value const logit = linear(t, x, whole_weight(name, 1, t.model.hidden));
  // A gate is a router over one expert: its weight is the sigmoid, and the rows stay where they are.
  Routing r;
  r.tokens = r.sent = t[y].rows;
  r.slots = 1;
  r.expected_sent = static_cast<double>(r.tokens);
  r.router = {{.experts = 1, .sigmoid = true}, r.tokens};
  r.weights = t.temporary(name + ".weights", Dtype::f32, r.tokens, 1);
  r.indices = t.temporary(name + ".indices", Dtype::i32, r.tokens, 1);
  t.emit(OpKind::router_forward, r.router, name, {t[logit].ref, {}, {}, {}}, {r.weights, r.indices});
  TensorRef const out = move_rows(t, OpKind::unpermute, t[y].ref, r.weights, r, name);
  Value const z = t.value_of(out, name, r.tokens, t.model.hidden, t[x].layout);
  t.on_backward(z, [=, &t](TensorRef dz) {
    TensorRef const dweights = t.temporary(name + ".dweights", Dtype::f32, r.tokens, 1);
    t.emit(OpKind::combine_weights, token_rows(t, r), name, {dz, t[y].ref, {}}, {dweights});
    router_gradient(t, logit, r, dweights);
    t.accumulate(y, move_rows(t, OpKind::permute, dz, r.weights, r, name));
  });
  return z;
}

}  // namespace shardbench
