// The expert MLP: its products between the exchanges of rows, forwards and backwards.
#include <fmt/format.h>

#include "harness/program/graph/graph_builder.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

constexpr auto tp_axis = static_cast<std::size_t>(Axis::tp);
constexpr auto ep_axis = static_cast<std::size_t>(Axis::ep);

}  // namespace

TensorRef GraphBuilder::temporary(std::string const& name, Dtype dtype, std::int64_t rows, std::int64_t cols) {
  return {new_tensor(qualified(name), TensorRole::temporary, dtype, rows, cols), 0, 0};
}

TensorRef GraphBuilder::routed_tensor(std::string const& name, std::int64_t bound, double expected, std::int64_t cols) {
  TensorRef const t = temporary(name, program_.precision, bound, cols);
  program_.tensors[static_cast<std::size_t>(t.id)].expected_rows = expected;
  return t;
}

std::int32_t GraphBuilder::expert_weight(std::string const& name, std::vector<std::string> const& parts,
                                         std::int64_t rows, std::int64_t cols) {
  std::int64_t const local = model_.moe->experts / program_.degree[ep_axis], etp = program_.etp;
  bool const by_rows = name == "up";
  Parameter p;
  p.name = qualified("moe.experts." + name);
  p.global_cols = cols;
  p.cols = by_rows ? cols : cols / etp;
  p.col_begin = by_rows ? 0 : program_.etp_coordinate * p.cols;
  std::int64_t const height = by_rows ? rows / etp : rows, begin = by_rows ? program_.etp_coordinate * height : 0;
  for (std::int64_t j = 0; j < local; ++j) {
    std::int64_t const expert = program_.coordinate[ep_axis] * local + j;
    for (std::string const& part : parts) {
      p.sections.push_back({qualified(fmt::format("experts.{}.{}.weight", expert, part)), height, begin, rows});
      p.rows += height;
    }
  }
  p.expert = true;
  return add_parameter(std::move(p));
}

GraphBuilder::ExpertWeights GraphBuilder::expert_weights() {
  std::int64_t const f = model_.moe->ffn_hidden, h = model_.hidden;
  ExpertWeights w;
  w.width = f / program_.etp;
  w.up_width = model_.gated_mlp ? 2 * w.width : w.width;
  w.up = expert_weight("up", model_.gated_mlp ? std::vector<std::string>{"gate", "up"} : std::vector<std::string>{"up"},
                       f, h);
  w.down = expert_weight("down", {"down"}, h, f);
  return w;
}

TensorRef GraphBuilder::exchange(TensorRef from, MoeSizes const& s, std::string const& name, bool to_experts) {
  if (s.peers == 1) return from;
  std::int64_t const h = model_.hidden;
  TensorRef const to =
      to_experts ? routed_tensor(name, s.bound, s.expected, h) : routed_tensor(name, s.sent, s.expected_sent, h);
  Op op = make_collective(OpKind::all_to_all, group_id("ep"), (to_experts ? s.sent : s.bound) * h, program_.precision,
                          name, from, to);
  auto& shape = std::get<CollectiveShape>(op.shape);
  shape.expected_count = (to_experts ? s.expected_sent : s.expected) * static_cast<double>(h);
  shape.routed_cols = h;
  shape.returning = !to_experts;
  shape.busiest_count = s.expected_sent * s.imbalance * static_cast<double>(h);
  op.inputs.push_back(s.counts);
  op.host_dependent = true;
  emit(std::move(op));
  return to;
}

TensorRef GraphBuilder::to_experts(TensorRef sorted, MoeSizes const& s, std::string const& name) {
  TensorRef const arrived = exchange(sorted, s, name, true);
  if (!s.arrivals.valid()) return arrived;
  TensorRef const grouped = routed_tensor(name + ".sorted", s.bound, s.expected, model_.hidden);
  PermuteShape const shape{s.bound, 1, 1, model_.hidden, s.bound, s.expected, s.expected, true};
  Op op = make_op(OpKind::permute, shape, name + ".sort", {arrived, s.arrivals, {}, s.counts}, {grouped});
  op.host_dependent = true;
  emit(std::move(op));
  return grouped;
}

TensorRef GraphBuilder::from_experts(TensorRef grouped, MoeSizes const& s, std::string const& name) {
  TensorRef leaving = grouped;
  if (s.arrivals.valid()) {
    leaving = routed_tensor(name + ".unsorted", s.bound, s.expected, model_.hidden);
    PermuteShape const shape{s.bound, 1, 1, model_.hidden, s.bound, s.expected, s.expected, true};
    Op op = make_op(OpKind::unpermute, shape, name + ".unsort", {grouped, s.arrivals, {}, s.counts}, {leaving});
    op.host_dependent = true;
    emit(std::move(op));
  }
  return exchange(leaving, s, name, false);
}

TensorRef GraphBuilder::expert_product(TensorRef rows_in, MoeSizes const& s, std::int32_t weight, std::int64_t n,
                                       std::int64_t k, bool transpose, std::string const& name) {
  TensorRef const y = routed_tensor(name, s.bound, s.expected, n);
  GroupedGemmShape const shape{s.local_experts, s.bound, n, k, transpose, false, s.expected};
  Op op = make_op(OpKind::grouped_gemm, shape, name,
                  {rows_in, {program_.parameters[static_cast<std::size_t>(weight)].weight, 0, 0}, s.counts}, {y});
  op.host_dependent = true;
  emit(std::move(op));
  return y;
}

void GraphBuilder::expert_weight_gradient(TensorRef dy, TensorRef x, MoeSizes const& s, std::int32_t weight,
                                          std::int64_t m, std::int64_t n, std::string const& name) {
  GroupedGemmShape const shape{s.local_experts, m, n, s.bound, false, true, s.expected};
  Op op = make_op(OpKind::grouped_gemm, shape, name, {dy, x, s.counts},
                  {{program_.parameters[static_cast<std::size_t>(weight)].gradient, 0, 0}});
  writes_gradient(op, weight, Layout{});
  op.host_dependent = true;
  emit(std::move(op));
}

TensorRef GraphBuilder::move_rows(OpKind kind, TensorRef from, TensorRef weights, MoeSizes const& s,
                                  std::string const& name) {
  PermuteShape const shape{s.tokens,        s.slots, s.copies, model_.hidden, s.sent, static_cast<double>(s.tokens),
                           s.expected_sent, false};
  TensorRef const to = kind == OpKind::permute
                           ? routed_tensor(name + ".rows", s.sent, s.expected_sent, model_.hidden)
                           : temporary(name + ".tokens", program_.precision, s.tokens, model_.hidden);
  emit(make_op(kind, shape, name, {from, s.rows, weights}, {to}));
  return to;
}

TensorRef GraphBuilder::combine_gradient(TensorRef dy, TensorRef rows, MoeSizes const& s, TensorRef& dweights) {
  dweights = temporary("moe.dweights", Dtype::f32, s.tokens, model_.moe->top_k);
  PermuteShape const shape{s.tokens,        s.slots, s.copies, model_.hidden, s.sent, static_cast<double>(s.tokens),
                           s.expected_sent, false};
  emit(make_op(OpKind::combine_weights, shape, "moe.combine_weights", {dy, rows, s.rows}, {dweights}));
  return move_rows(OpKind::permute, dy, s.weights, s, "moe.unpermute");
}

Value GraphBuilder::moe_input(Value x) {
  Layout layout = state(x).layout;
  if (program_.degree[tp_axis] > 1) layout[tp_axis] = Shard{sequence_dim};
  return redistribute(x, layout, "moe.input");
}

Value GraphBuilder::moe(Value x) {
  MoeConfig const& moe = *model_.moe;
  std::int64_t const h = model_.hidden;
  Layout const layout = state(x).layout;
  MoeSizes s = moe_sizes(state(x).rows);
  Value const logits =
      linear(x, {"moe.router", "moe.router", {{"", moe.experts, moe.experts, 0, false}}, h, false, -1});
  route(logits, s);
  TensorRef const sorted = move_rows(OpKind::permute, state(x).ref, {}, s, "moe.permute");
  TensorRef const received = to_experts(sorted, s, "moe.dispatch");
  ExpertWeights const w = expert_weights();
  TensorRef const up = expert_product(received, s, w.up, w.up_width, h, true, "moe.up");
  TensorRef const hidden = routed_tensor("moe.hidden", s.bound, s.expected, w.width);
  ActivationShape const act{model_.activation, model_.gated_mlp, s.bound, w.width};
  Op activate = make_op(OpKind::activation_forward, act, "moe.activation", {up, s.counts}, {hidden});
  activate.host_dependent = true;
  emit(std::move(activate));
  TensorRef const down = expert_product(hidden, s, w.down, h, w.width, true, "moe.down");
  TensorRef const returned = from_experts(down, s, "moe.combine");
  TensorRef const out = move_rows(OpKind::unpermute, returned, s.weights, s, "moe.unpermute");
  Value const y = value_of(out, "moe.output", s.tokens, h, h, layout);
  on_backward([=, this] {
    TensorRef dweights;
    TensorRef const dreturned = combine_gradient(take_gradient(y), returned, s, dweights);
    TensorRef const ddown = to_experts(dreturned, s, "moe.combine");
    TensorRef const dhidden = expert_product(ddown, s, w.down, w.width, h, false, "moe.down.dx");
    expert_weight_gradient(ddown, hidden, s, w.down, h, w.width, "moe.down.dw");
    TensorRef const dup = routed_tensor("moe.dup", s.bound, s.expected, w.up_width);
    Op back = make_op(OpKind::activation_backward, act, "moe.activation", {dhidden, up, s.counts}, {dup});
    back.host_dependent = true;
    emit(std::move(back));
    TensorRef const dreceived = expert_product(dup, s, w.up, h, w.up_width, false, "moe.up.dx");
    expert_weight_gradient(dup, received, s, w.up, w.up_width, h, "moe.up.dw");
    TensorRef const dsorted = from_experts(dreceived, s, "moe.dispatch");
    TensorRef const dx = move_rows(OpKind::unpermute, dsorted, {}, s, "moe.permute");
    router_gradient(logits, s, dweights);
    accumulate(x, dx, layout);
  });
  return y;
}

}  // namespace shardbench
