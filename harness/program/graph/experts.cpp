// The expert MLP: its products between the exchanges of rows, forwards and backwards.
#include "harness/program/graph/experts.hpp"

#include <fmt/format.h>

#include "harness/program/graph/linear.hpp"
#include "harness/program/graph/module_scope.hpp"
#include "harness/program/graph/routing.hpp"

namespace shardbench {

namespace {

/// Adds a weight [rows, cols] of each local expert and part, cut by rows or by columns over etp.
ParameterId expert_weight(Tape& t, std::string const& name, std::vector<std::string> const& parts, std::int64_t rows,
                          std::int64_t cols, bool by_rows) {
  StepProgram const& program = t.program;
  std::int64_t const local = t.model.moe->experts / program.degree[Axis::ep], etp = program.etp;
  Parameter p;
  p.name = t.qualified("moe.experts." + name);
  p.global_cols = cols;
  p.cols = by_rows ? cols : cols / etp;
  p.col_begin = by_rows ? 0 : program.etp_coordinate * p.cols;
  std::int64_t const height = by_rows ? rows / etp : rows, begin = by_rows ? program.etp_coordinate * height : 0;
  for (std::int64_t j = 0; j < local; ++j) {
    std::int64_t const expert = program.coordinate[Axis::ep] * local + j;
    for (std::string const& part : parts) {
      p.sections.push_back({t.qualified(fmt::format("experts.{}.{}.weight", expert, part)), height, begin, rows});
      p.rows += height;
    }
  }
  p.expert = true;
  return t.add_parameter(std::move(p));
}

TensorRef arriving_rows(Tape& t, std::string const& name, Routing const& r, std::int64_t cols) {
  return routed_rows(t, name, r.bound, r.expected, cols);
}

/// Rows to the ranks of their experts, or back.
TensorRef exchange(Tape& t, TensorRef from, Routing const& r, std::string const& name, bool to_experts) {
  if (r.peers == 1) return from;
  std::int64_t const h = t.model.hidden;
  TensorRef const to = to_experts ? arriving_rows(t, name, r, h) : routed_rows(t, name, r.sent, r.expected_sent, h);
  Op& op =
      t.emit_collective(OpKind::all_to_all, id_of(GroupKind::ep), (to_experts ? r.sent : r.bound) * h, name, from, to);
  auto& shape = std::get<CollectiveShape>(op.shape);
  shape.expected_count = (to_experts ? r.expected_sent : r.expected) * static_cast<double>(h);
  shape.routed_cols = h;
  shape.returning = !to_experts;
  shape.busiest_count = r.expected_sent * r.imbalance * static_cast<double>(h);
  op.inputs.push_back(r.counts);
  op.host_dependent = true;
  return to;
}

/// Rows that came from several ranks, to the order of their experts (permute) or back (unpermute).
TensorRef sort_arrivals(Tape& t, OpKind kind, TensorRef from, Routing const& r, std::string const& name,
                        std::string const& op_name) {
  if (!r.arrivals.valid()) return from;
  std::int64_t const h = t.model.hidden;
  TensorRef const to = arriving_rows(t, name, r, h);
  PermuteShape const shape{r.bound, 1, 1, h, r.bound, r.expected, r.expected, true};
  t.emit(kind, shape, op_name, {from, r.arrivals, {}, r.counts}, {to}).host_dependent = true;
  return to;
}

TensorRef to_experts(Tape& t, TensorRef sorted, Routing const& r, std::string const& name) {
  return sort_arrivals(t, OpKind::permute, exchange(t, sorted, r, name, true), r, name + ".sorted", name + ".sort");
}

TensorRef from_experts(Tape& t, TensorRef grouped, Routing const& r, std::string const& name) {
  TensorRef const leaving = sort_arrivals(t, OpKind::unpermute, grouped, r, name + ".unsorted", name + ".unsort");
  return exchange(t, leaving, r, name, false);
}

/// One product of each expert: rows [k] to rows [n].
TensorRef expert_product(Tape& t, TensorRef x, Routing const& r, ParameterId weight, std::int64_t n, std::int64_t k,
                         bool transpose, std::string const& name) {
  TensorRef const y = arriving_rows(t, name, r, n);
  GroupedGemmShape const shape{r.local_experts, r.bound, n, k, transpose, false, r.expected};
  t.emit(OpKind::grouped_gemm, shape, name, {x, t.weight(weight), r.counts}, {y}).host_dependent = true;
  return y;
}

void expert_weight_gradient(Tape& t, TensorRef dy, TensorRef x, Routing const& r, ParameterId weight, std::int64_t m,
                            std::int64_t n, std::string const& name) {
  GroupedGemmShape const shape{r.local_experts, m, n, r.bound, false, true, r.expected};
  Op& op = t.emit(OpKind::grouped_gemm, shape, name, {dy, x, r.counts}, {t.gradient(weight)});
  t.writes_gradient(op, weight, Layout{});
  op.host_dependent = true;
}

/// Weights of this rank's experts, their widths as etp cuts them, and the rows between their products.
struct ExpertMlp {
  ParameterId up, down;
  std::int64_t up_width = 0, width = 0;
  ActivationShape act{};
  TensorRef received{}, up_rows{}, hidden{}, returned{};
};

ExpertMlp expert_weights(Tape& t, Routing const& r) {
  std::int64_t const f = t.model.moe->ffn_hidden, h = t.model.hidden;
  bool const gated = t.model.gated_mlp;
  ExpertMlp e;
  e.width = f / t.program.etp;
  e.up_width = gated ? 2 * e.width : e.width;
  e.up = expert_weight(t, "up", gated ? std::vector<std::string>{"gate", "up"} : std::vector<std::string>{"up"}, f, h,
                       true);
  e.down = expert_weight(t, "down", {"down"}, h, f, false);
  e.act = {t.model.activation, gated, r.bound, e.width};
  return e;
}

void experts_backward(Tape& t, Value x, Value y, Value logits, ExpertMlp const& e, Routing const& r) {
  std::int64_t const h = t.model.hidden;
  TensorRef const dy = t.take_gradient(y);
  TensorRef const dweights = t.temporary("moe.dweights", Dtype::f32, r.tokens, t.model.moe->top_k);
  bool const inputs = t.model.moe->scales_input;
  if (!inputs)
    t.emit(OpKind::combine_weights, token_rows(t, r), "moe.combine_weights", {dy, e.returned, r.rows}, {dweights});
  TensorRef const none, dreturned = move_rows(t, OpKind::permute, dy, inputs ? none : r.weights, r, "moe.unpermute");
  TensorRef const ddown = to_experts(t, dreturned, r, "moe.combine");
  TensorRef const dhidden = expert_product(t, ddown, r, e.down, e.width, h, false, "moe.down.dx");
  expert_weight_gradient(t, ddown, e.hidden, r, e.down, h, e.width, "moe.down.dw");
  TensorRef const dup = arriving_rows(t, "moe.dup", r, e.up_width);
  t.emit(OpKind::activation_backward, e.act, "moe.activation", {dhidden, e.up_rows, r.counts}, {dup}).host_dependent =
      true;
  TensorRef const dreceived = expert_product(t, dup, r, e.up, h, e.up_width, false, "moe.up.dx");
  expert_weight_gradient(t, dup, e.received, r, e.up, e.up_width, h, "moe.up.dw");
  TensorRef const dsorted = from_experts(t, dreceived, r, "moe.dispatch");
  if (inputs)
    t.emit(OpKind::combine_weights, token_rows(t, r), "moe.combine_weights", {t[x].ref, dsorted, r.rows}, {dweights});
  TensorRef const dx = move_rows(t, OpKind::unpermute, dsorted, inputs ? r.weights : none, r, "moe.permute");
  router_gradient(t, logits, r, dweights);
  t.accumulate(x, dx);
}

}  // namespace

Value moe_input(Tape& t, Value x) {
  if (t.program.degree[Axis::tp] == 1) return x;
  return t.redistribute(x, with(t[x].layout, Axis::tp, Shard{sequence_dim}), "moe.input");
}

Value moe(Tape& t, Value x) {
  std::int64_t const h = t.model.hidden;
  Value const logits = linear(t, x, whole_weight("moe.router", t.model.moe->experts, h));
  Routing const r = route(t, logits, t[x].rows);
  // A weight multiplies what its expert gives, or what it reads (Llama 4).
  bool const inputs = t.model.moe->scales_input;
  TensorRef const none, sorted = move_rows(t, OpKind::permute, t[x].ref, inputs ? r.weights : none, r, "moe.permute");
  TensorRef const received = to_experts(t, sorted, r, "moe.dispatch");
  ExpertMlp e = expert_weights(t, r);
  e.received = received;
  e.up_rows = expert_product(t, received, r, e.up, e.up_width, h, true, "moe.up");
  e.hidden = arriving_rows(t, "moe.hidden", r, e.width);
  {
    ModuleScope const scope(t, RecomputeModule::moe_act);
    t.emit(OpKind::activation_forward, e.act, "moe.activation", {e.up_rows, r.counts}, {e.hidden}).host_dependent =
        true;
  }
  TensorRef const down = expert_product(t, e.hidden, r, e.down, h, e.width, true, "moe.down");
  e.returned = from_experts(t, down, r, "moe.combine");
  TensorRef const out = move_rows(t, OpKind::unpermute, e.returned, inputs ? none : r.weights, r, "moe.unpermute");
  Value const y = t.value_of(out, "moe.output", r.tokens, h, t[x].layout);
  t.on_backward([=, &t] { experts_backward(t, x, y, logits, e, r); });
  return y;
}

}  // namespace shardbench
