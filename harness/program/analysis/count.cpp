#include "harness/program/analysis/count.hpp"

#include <map>

namespace shardbench {

namespace {

/// Which operands are there, bit by bit.
std::uint32_t given(std::vector<TensorRef> const& operands) {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (operands[i].valid()) bits |= 1u << i;
  return bits;
}

CostContext context_of(StepProgram const& p, Op const& op, bool adds) {
  CostContext context;
  context.precision = p.precision, context.adds = adds;
  context.given_inputs = given(op.inputs), context.given_outputs = given(op.outputs);
  if (context.has_input(0)) context.input = p.tensors[op.inputs[0].id].dtype;
  if (!context.has_output(0)) return context;
  Tensor const& output = p.tensors[op.outputs[0].id];
  context.output = output.dtype;
  context.output_rows = static_cast<double>(output.rows), context.expected_output_rows = output.expected_rows;
  return context;
}

}  // namespace

OpCost op_cost(StepProgram const& p, Op const& op, bool adds) {
  switch (op.kind) {
#define SHARDBENCH_COST(name, Args) \
  case OpKind::name:                \
    return Args::cost(std::get<Args::Shape>(op.shape), context_of(p, op, adds));
    SHARDBENCH_EACH_OPERATION(SHARDBENCH_COST, SHARDBENCH_COST)
#undef SHARDBENCH_COST
#define SHARDBENCH_NO_COST(name) case OpKind::name:
    SHARDBENCH_EACH_COMMUNICATION(SHARDBENCH_NO_COST)
#undef SHARDBENCH_NO_COST
    case OpKind::size_:
      break;
  }
  return {};
}

double model_flops(StepProgram const& p, Op const& op, bool full_attention) {
  OpCost const cost = op_cost(p, op, false);
  return full_attention ? cost.model_flops_full : cost.model_flops;
}

double collective_payload(StepProgram const&, Op const& op) {
  auto const* s = std::get_if<CollectiveShape>(&op.shape);
  return s ? s->expected_count * static_cast<double>(bytes_of(s->dtype)) : 0;
}

double ring_wire_bytes(OpKind kind, double payload, std::int64_t ranks) {
  double const share = ranks > 0 ? static_cast<double>(ranks - 1) / static_cast<double>(ranks) : 0;
  switch (kind) {
    case OpKind::all_reduce:
      return 2 * share * payload;
    case OpKind::reduce_scatter:
    case OpKind::all_gather:
    case OpKind::all_to_all:
      return share * payload;
    case OpKind::receive:
      return 0;
    default:
      return payload;
  }
}

namespace {

/// Sums what one run of a segment adds, by the flags that decide which ops take part.
class Counter {
 public:
  Counter(StepProgram const& p, StepCount& out) : p_(p), out_(out) { out_.labels.resize(p.labels.size() + 1); }

  void add(Op const& op, bool adds, std::int64_t times) {
    auto& label = op.label < 0 ? out_.labels.back() : out_.labels[op.label];
    double const n = static_cast<double>(times);
    label.count += times;
    OpCost const cost = op_cost(p_, op, adds);
    label.flops += n * cost.flops;
    label.bytes += n * cost.bytes;
    out_.memory_bytes += n * cost.bytes;
    out_.hardware_flops += n * cost.model_flops;
    if (op.flop_class == FlopClass::model) {
      out_.model_flops += n * cost.model_flops;
      out_.model_flops_full += n * cost.model_flops_full;
    }
    if (op.group >= 0) add_traffic(op, label, times);
  }

 private:
  void add_traffic(Op const& op, LabelCount& label, std::int64_t times) {
    Group const& group = p_.groups[op.group];
    // A message is counted where it is sent.
    double const payload = op.kind == OpKind::receive ? 0 : static_cast<double>(times) * collective_payload(p_, op);
    AxisTraffic& axis = out_.traffic[group.axis];
    axis.calls += times;
    axis.payload_bytes += payload;
    axis.wire_bytes += ring_wire_bytes(op.kind, payload, static_cast<std::int64_t>(group.members.size()));
    label.bytes += payload;
  }

  StepProgram const& p_;
  StepCount& out_;
};

}  // namespace

StepCount count_step(StepProgram const& program, Replay const& replay) {
  StepCount out;
  Counter counter(program, out);
  // Equal runs are counted once and multiplied.
  std::map<std::tuple<Segment const*, Op const*, int>, std::int64_t> kinds;
  for (Run const& run : replay.runs()) {
    int const flags = (run.first[0] ? 1 : 0) | (run.last[0] ? 2 : 0) | (run.first[1] ? 4 : 0) | (run.last[1] ? 8 : 0);
    ++kinds[{run.segment, run.transfer, flags}];
  }
  for (auto const& [key, times] : kinds) {
    auto const& [segment, transfer, flags] = key;
    Run run;
    run.first[0] = flags & 1, run.last[0] = flags & 2, run.first[1] = flags & 4, run.last[1] = flags & 8;
    if (transfer) counter.add(*transfer, false, times);
    if (!segment) continue;
    for (Op const& op : segment->ops)
      if (run.runs(op)) counter.add(op, run.adds(op), times);
  }
  for (Parameter const& parameter : program.parameters) out.parameters += parameter.elements();
  return out;
}

}  // namespace shardbench
