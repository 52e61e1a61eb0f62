// The expert MLP: router, permutation, dispatch, grouped products and combination, forwards and backwards.
#include <fmt/format.h>

#include "harness/program/graph_builder.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

constexpr auto tp_axis = static_cast<std::size_t>(Axis::tp);
constexpr auto ep_axis = static_cast<std::size_t>(Axis::ep);

}  // namespace

TensorRef GraphBuilder::routed_tensor(std::string const& name, std::int64_t bound, double expected, std::int64_t cols) {
  TensorId const id = new_tensor(qualified(name), TensorRole::temporary, program_.precision, bound, cols);
  program_.tensors[static_cast<std::size_t>(id)].expected_rows = expected;
  return {id, 0, 0};
}

std::int32_t GraphBuilder::expert_weight(std::string const& name, std::int64_t rows, std::int64_t cols) {
  std::int64_t const ep = program_.degree[ep_axis], local = model_.moe->experts / ep;
  Parameter p;
  p.name = qualified(name);
  p.cols = p.global_cols = cols;
  for (std::int64_t j = 0; j < local; ++j) {
    std::int64_t const expert = program_.coordinate[ep_axis] * local + j;
    p.sections.push_back({qualified(fmt::format("experts.{}.{}", expert, name)), rows, 0, rows});
  }
  p.rows = rows * local;
  p.expert = true;
  return add_parameter(std::move(p));
}

TensorRef GraphBuilder::exchange(TensorRef from, MoeSizes const& s, std::string const& name, bool to_experts) {
  if (program_.degree[ep_axis] == 1) return from;
  TensorRef const to = to_experts ? routed_tensor(name, s.bound, s.expected, model_.hidden)
                                  : routed_tensor(name, s.routed, static_cast<double>(s.routed), model_.hidden);
  Op op =
      make_collective(OpKind::all_to_all, group_id("ep"), s.routed * model_.hidden, program_.precision, name, from, to);
  op.host_dependent = true;
  emit(std::move(op));
  return to;
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

Value GraphBuilder::moe(Value x) {
  MoeConfig const& moe = *model_.moe;
  // With one copy of the experts per tensor-parallel group, its ranks share the tokens instead of the weights.
  Layout layout = state(x).layout;
  if (program_.degree[tp_axis] > 1) layout[tp_axis] = Shard{sequence_dim};
  x = redistribute(x, layout, "moe.input");
  MoeSizes s;
  std::int64_t const tokens = state(x).rows, ep = program_.degree[ep_axis], f = moe.ffn_hidden, h = model_.hidden;
  s.routed = tokens * moe.top_k;
  s.local_experts = moe.experts / ep;
  // Dropless: at worst every token of the group visits this rank's experts, at most once each.
  s.bound = tokens * ep * std::min(moe.top_k, s.local_experts);
  s.expected = static_cast<double>(s.routed);
  Value const logits =
      linear(x, {"moe.router", "moe.router", {{"", moe.experts, moe.experts, 0, false}}, h, false, -1});
  TensorRef const weights{new_tensor(qualified("moe.weights"), TensorRole::temporary, Dtype::f32, tokens, moe.top_k), 0,
                          0};
  TensorRef const indices{new_tensor(qualified("moe.indices"), TensorRole::temporary, Dtype::i32, tokens, moe.top_k), 0,
                          0};
  s.counts = {new_tensor(qualified("moe.counts"), TensorRole::temporary, Dtype::i32, 1, moe.experts), 0, 0};
  RouterShape const route{tokens, moe.experts, moe.top_k, h, moe.sigmoid_router};
  PermuteShape const permute{tokens, moe.top_k, h};
  Op router = make_op(OpKind::router_forward, route, "moe.router", {state(logits).ref}, {weights, indices, s.counts});
  router.host_dependent = true;
  emit(std::move(router));
  TensorRef const sorted = routed_tensor("moe.permuted", s.routed, static_cast<double>(s.routed), h);
  emit(make_op(OpKind::permute, permute, "moe.permute", {state(x).ref, indices}, {sorted}));
  TensorRef const received = exchange(sorted, s, "moe.dispatch", true);
  std::int64_t const up_width = model_.gated_mlp ? 2 * f : f;
  std::int32_t const up_weight = expert_weight("up.weight", up_width, h),
                     down_weight = expert_weight("down.weight", h, f);
  TensorRef const up = expert_product(received, s, up_weight, up_width, h, true, "moe.up");
  TensorRef const hidden = routed_tensor("moe.activation", s.bound, s.expected, f);
  ActivationShape const act{model_.activation, model_.gated_mlp, s.bound, f};
  emit(make_op(OpKind::activation_forward, act, "moe.activation", {up}, {hidden}));
  TensorRef const down = expert_product(hidden, s, down_weight, h, f, true, "moe.down");
  TensorRef const returned = exchange(down, s, "moe.combine", false);
  Value const y = new_value("moe.output", tokens, h, h, layout);
  emit(make_op(OpKind::unpermute, permute, "moe.unpermute", {returned, indices, weights}, {state(y).ref}));
  on_backward([=, this] {
    TensorRef const dy = take_gradient(y);
    TensorRef const dreturned = routed_tensor("moe.dreturned", s.routed, static_cast<double>(s.routed), h);
    TensorRef const dweights{
        new_tensor(qualified("moe.dweights"), TensorRole::temporary, Dtype::f32, tokens, route.top_k), 0, 0};
    emit(make_op(OpKind::permute, permute, "moe.unpermute", {dy, indices, weights, returned}, {dreturned, dweights}));
    TensorRef const ddown = exchange(dreturned, s, "moe.combine", true);
    TensorRef const dhidden = expert_product(ddown, s, down_weight, f, h, false, "moe.down.dx");
    expert_weight_gradient(ddown, hidden, s, down_weight, h, f, "moe.down.dw");
    TensorRef const dup = routed_tensor("moe.dup", s.bound, s.expected, up_width);
    emit(make_op(OpKind::activation_backward, act, "moe.activation", {dhidden, up}, {dup}));
    TensorRef const dreceived = expert_product(dup, s, up_weight, h, up_width, false, "moe.up.dx");
    expert_weight_gradient(dup, received, s, up_weight, up_width, h, "moe.up.dw");
    TensorRef const dsorted = exchange(dreceived, s, "moe.dispatch", false);
    TensorRef const dx{new_tensor(qualified("moe.dx"), TensorRole::temporary, program_.precision, tokens, h), 0, 0};
    emit(make_op(OpKind::unpermute, permute, "moe.permute", {dsorted, indices}, {dx}));
    TensorRef const dlogits{
        new_tensor(qualified("moe.dlogits"), TensorRole::temporary, program_.precision, tokens, route.experts), 0, 0};
    emit(make_op(OpKind::router_backward, route, "moe.router", {state(logits).ref, indices, weights, dweights},
                 {dlogits}));
    accumulate(logits, dlogits, state(logits).layout);
    accumulate(x, dx, layout);
  });
  return y;
}

}  // namespace shardbench
