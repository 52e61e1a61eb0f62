#include "harness/program/analysis/count.hpp"

#include <fmt/format.h>

#include <map>

#include "harness/program/analysis/count_vision.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

Dtype dtype_of(StepProgram const& p, TensorRef const& ref) { return p.tensors[static_cast<std::size_t>(ref.id)].dtype; }

AttentionCostShape attention_cost_shape(StepProgram const& p, AttentionOpShape const& s, double pairs) {
  return {s.seq_q, s.seq_k, s.batch, s.heads, s.kv_heads, s.head_dim, s.value_dim, pairs, p.precision};
}

OpCost norm_cost(StepProgram const& p, NormShape const& s, bool forward) {
  bool const layer = s.kind == NormKind::layer_norm;
  return forward ? norm_forward_cost(s.rows * s.heads, s.cols, p.precision, layer, s.residual)
                 : norm_backward_cost(s.rows * s.heads, s.cols, p.precision, layer, s.residual);
}

OpCost grouped_cost(StepProgram const& p, Op const& op, bool adds) {
  auto const& s = std::get<GroupedGemmShape>(op.shape);
  Dtype const out = dtype_of(p, op.outputs[0]);
  auto const expected = static_cast<std::int64_t>(s.expected_m);
  if (s.weight_gradient) return grouped_gemm_weight_gradient_cost(expected, s.groups, s.m, s.n, p.precision, out, adds);
  return grouped_gemm_cost(expected, s.groups, s.n, s.k, p.precision, out);
}

OpCost routing_cost(StepProgram const& p, Op const& op) {
  if (auto const* r = std::get_if<RouterShape>(&op.shape))
    return router_cost(r->tokens, r->rule.experts, r->rule.top_k, p.precision, op.kind == OpKind::router_backward);
  if (auto const* r = std::get_if<RowsShape>(&op.shape)) {
    double const entries = op.kind == OpKind::source_rows
                               ? p.tensors[static_cast<std::size_t>(op.outputs[0].id)].expected_rows
                               : static_cast<double>(r->tokens * r->top_k * r->copies);
    return expert_rows_cost(entries, r->experts * r->ranks);
  }
  auto const& s = std::get<PermuteShape>(op.shape);
  if (op.kind == OpKind::combine_weights)
    return combine_weights_cost(s.expected_tokens, s.expected_sorted, s.cols, p.precision);
  return permute_cost(s.expected_tokens, s.expected_sorted, s.cols, p.precision);
}

/// Every head's key is written once; backwards the rotary parts are summed over the heads.
OpCost latent_keys_cost(StepProgram const& p, Op const& op) {
  auto const& s = std::get<LatentKeysShape>(op.shape);
  double const keys = static_cast<double>(s.rows * s.heads * (s.plain_dim + s.rotary_dim)),
               parts = static_cast<double>(s.rows * (s.heads * s.plain_dim + s.rotary_dim));
  bool const backward = op.kind == OpKind::split_keys;
  return {backward ? static_cast<double>(s.rows * s.heads * s.rotary_dim) : 0.0,
          (keys + parts) * static_cast<double>(bytes_of(p.precision))};
}

double expected_share(StepProgram const& p, Op const& op) {
  Tensor const& t = p.tensors[static_cast<std::size_t>(op.outputs[0].id)];
  return t.rows > 0 ? t.expected_rows / static_cast<double>(t.rows) : 1;
}

}  // namespace

OpCost op_cost(StepProgram const& p, Op const& op, bool adds) {
  Dtype const t = p.precision;
  switch (op.kind) {
    case OpKind::gemm: {
      auto const& s = std::get<GemmShape>(op.shape);
      return gemm_cost(s.m, s.n, s.k, t, dtype_of(p, op.outputs[0]), adds,
                       op.inputs.size() > 2 && op.inputs[2].valid());
    }
    case OpKind::grouped_gemm:
      return grouped_cost(p, op, adds);
    case OpKind::attention_forward: {
      auto const& s = std::get<AttentionOpShape>(op.shape);
      return attention_forward_cost(attention_cost_shape(p, s, s.visible_pairs));
    }
    case OpKind::attention_merge: {
      auto const& s = std::get<AttentionOpShape>(op.shape);
      return attention_merge_cost(s.seq_q * s.batch, s.heads, s.value_dim, t);
    }
    case OpKind::attention_backward: {
      auto const& s = std::get<AttentionOpShape>(op.shape);
      return attention_backward_cost(attention_cost_shape(p, s, s.visible_pairs));
    }
    case OpKind::norm_forward:
      return norm_cost(p, std::get<NormShape>(op.shape), true);
    case OpKind::norm_backward:
      return norm_cost(p, std::get<NormShape>(op.shape), false);
    case OpKind::rope: {
      auto const& s = std::get<RopeShape>(op.shape);
      return rope_cost(s.seq * s.batch, s.heads, s.rotary_dim, t);
    }
    case OpKind::activation_forward: {
      auto const& s = std::get<ActivationShape>(op.shape);
      return expected_share(p, op) * activation_forward_cost(s.rows, s.cols, t, s.gated);
    }
    case OpKind::activation_backward: {
      auto const& s = std::get<ActivationShape>(op.shape);
      return expected_share(p, op) * activation_backward_cost(s.rows, s.cols, t, s.gated);
    }
    case OpKind::embedding_forward: {
      auto const& s = std::get<EmbeddingShape>(op.shape);
      return embedding_forward_cost(s.tokens, s.cols, t, adds);
    }
    case OpKind::embedding_backward: {
      auto const& s = std::get<EmbeddingShape>(op.shape);
      return embedding_backward_cost(s.tokens, s.rows, s.cols, t, adds);
    }
    case OpKind::cross_entropy_max:
      return cross_entropy_max_cost(std::get<CrossEntropyOpShape>(op.shape).tokens,
                                    std::get<CrossEntropyOpShape>(op.shape).columns, t);
    case OpKind::cross_entropy_sum:
      return cross_entropy_sum_cost(std::get<CrossEntropyOpShape>(op.shape).tokens,
                                    std::get<CrossEntropyOpShape>(op.shape).columns, t);
    case OpKind::cross_entropy_loss:
      return cross_entropy_loss_cost(std::get<CrossEntropyOpShape>(op.shape).tokens);
    case OpKind::cross_entropy_backward:
      return cross_entropy_backward_cost(std::get<CrossEntropyOpShape>(op.shape).tokens,
                                         std::get<CrossEntropyOpShape>(op.shape).columns, t);
    case OpKind::add:
      return add_cost(std::get<BlockShape>(op.shape).rows * std::get<BlockShape>(op.shape).cols, t);
    case OpKind::column_sum:
      return column_sum_cost(std::get<BlockShape>(op.shape).rows, std::get<BlockShape>(op.shape).cols, t);
    case OpKind::copy_block:
      return copy_block_cost(std::get<BlockShape>(op.shape).rows, std::get<BlockShape>(op.shape).cols,
                             dtype_of(p, op.inputs[0]), dtype_of(p, op.outputs[0]));
    case OpKind::scale:
      return scale_cost(std::get<BlockShape>(op.shape).rows * std::get<BlockShape>(op.shape).cols, t);
    case OpKind::adamw:
      return adamw_cost(std::get<AdamWShape>(op.shape).count, t, dtype_of(p, op.inputs[0]), op.outputs[1].valid());
    case OpKind::join_keys:
    case OpKind::split_keys:
      return latent_keys_cost(p, op);
    case OpKind::cache_append:
      return copy_block_cost(std::get<BlockShape>(op.shape).rows, std::get<BlockShape>(op.shape).cols, t, t);
    case OpKind::best_token: {
      auto const& s = std::get<GreedyShape>(op.shape);
      return {static_cast<double>(s.rows * s.columns),
              static_cast<double>(s.rows * s.columns) * static_cast<double>(bytes_of(t))};
    }
    case OpKind::dropout: {
      auto const& s = std::get<DropoutShape>(op.shape);
      return dropout_cost(s.rows, s.cols, t, op.inputs[1].valid(), op.inputs[2].valid());
    }
    case OpKind::square_sum:
      return square_sum_cost(std::get<BlockShape>(op.shape).cols, dtype_of(p, op.inputs[0]));
    case OpKind::clip_factor:
      return {4, 8};
    case OpKind::router_forward:
    case OpKind::router_backward:
    case OpKind::permute:
    case OpKind::unpermute:
    case OpKind::combine_weights:
    case OpKind::expert_rows:
    case OpKind::source_rows:
      return routing_cost(p, op);
    default:
      return vision_op_cost(op, t);
  }
}

double model_flops(StepProgram const& p, Op const& op, bool full_attention) {
  bool const forward = op.kind == OpKind::attention_forward, backward = op.kind == OpKind::attention_backward;
  if (forward || backward) {
    auto const& s = std::get<AttentionOpShape>(op.shape);
    auto const shape = attention_cost_shape(p, s, full_attention ? s.full_pairs : s.visible_pairs);
    return forward ? attention_forward_cost(shape).flops : attention_backward_model_flops(shape);
  }
  if (op.kind == OpKind::gemm) {
    auto const& s = std::get<GemmShape>(op.shape);
    return 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) *
           static_cast<double>(s.k);  // a bias is no model FLOP
  }
  if (op.kind == OpKind::grouped_gemm) return op_cost(p, op, false).flops;
  return vision_model_flops(op, p.precision);
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
    auto& label = op.label < 0 ? out_.labels.back() : out_.labels[static_cast<std::size_t>(op.label)];
    double const n = static_cast<double>(times);
    label.count += times;
    OpCost const cost = op_cost(p_, op, adds);
    label.flops += n * cost.flops;
    label.bytes += n * cost.bytes;
    out_.memory_bytes += n * cost.bytes;
    double const flops = model_flops(p_, op, false);
    out_.hardware_flops += n * flops;
    if (op.flop_class == FlopClass::model) {
      out_.model_flops += n * flops;
      out_.model_flops_full += n * model_flops(p_, op, true);
    }
    if (op.group >= 0) add_traffic(op, label, times);
  }

 private:
  void add_traffic(Op const& op, LabelCount& label, std::int64_t times) {
    Group const& group = p_.groups[static_cast<std::size_t>(op.group)];
    // A message is counted where it is sent.
    double const payload = op.kind == OpKind::receive ? 0 : static_cast<double>(times) * collective_payload(p_, op);
    AxisTraffic& axis = out_.traffic[static_cast<std::size_t>(group.axis)];
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

double gpt_step_flops(double batch, double seq, double layers, double hidden, double vocab) {
  return 72 * batch * seq * layers * hidden * hidden * (1 + seq / (6 * hidden) + vocab / (12 * layers * hidden));
}

double gpt_layer_activation_bytes(double seq, double batch, double hidden, double heads, double tp,
                                  bool sequence_parallel) {
  double const scores = 5 * heads * seq / (hidden * tp);
  return seq * batch * hidden * (sequence_parallel ? 34 / tp + scores : 10 + 24 / tp + scores);
}

}  // namespace shardbench
