#include "harness/exec/launch_compute.hpp"

#include <fmt/format.h>

#include <array>

#include "harness/exec/device_memory.hpp"
#include "harness/exec/launch.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

/// Elements between rows of an operand: what it says, or those of dense rows.
std::int64_t row_stride(TensorRef const& ref, std::int64_t dense) { return ref.stride > 0 ? ref.stride : dense; }

void gemm(Launch const& l) {
  auto const& s = std::get<GemmShape>(l.op.shape);
  GemmArgs a;
  a.a = l.data.at(l.in(0));
  a.b = l.data.at(l.in(1));
  a.bias = l.data.at(l.in(2));
  a.c = l.data.at(l.out(0));
  a.m = s.m, a.n = s.n, a.k = s.k;
  a.transpose_a = s.transpose_a, a.transpose_b = s.transpose_b;
  a.lda = row_stride(l.in(0), s.transpose_a ? s.m : s.k);
  a.ldb = row_stride(l.in(1), s.transpose_b ? s.k : s.n);
  a.ldc = row_stride(l.out(0), s.n);
  a.beta = l.adds ? 1.0f : 0.0f;
  a.input_dtype = l.data.dtype(l.in(0));
  a.output_dtype = l.data.dtype(l.out(0));
  l.kernels.gemm(l.stream, a);
}

AttentionShape attention_shape(Launch const& l) {
  AttentionShape a = attention_shape(std::get<AttentionOpShape>(l.op.shape), l.precision());
  a.seq_k -= l.data.program().inference.context - l.data.position();  // a step may stand before the longest context
  return a;
}

AttentionTensor part(Launch const& l, TensorRef const& ref) { return {l.data.at(ref), l.data.stride(ref)}; }

void attention_forward(Launch const& l) {
  AttentionForwardArgs a;
  a.shape = attention_shape(l);
  a.q = part(l, l.in(0)), a.k = part(l, l.in(1)), a.v = part(l, l.in(2));
  a.out = part(l, l.out(0));
  a.log_sum_exp = l.data.as<float>(l.out(1));
  l.kernels.attention_forward(l.stream, a);
}

void attention_backward(Launch const& l) {
  AttentionBackwardArgs a;
  a.shape = attention_shape(l);
  a.q = part(l, l.in(0)), a.k = part(l, l.in(1)), a.v = part(l, l.in(2));
  a.out = part(l, l.in(3)), a.dout = part(l, l.in(4));
  a.log_sum_exp = l.data.as<float>(l.in(5));
  a.dq = part(l, l.out(0)), a.dk = part(l, l.out(1)), a.dv = part(l, l.out(2));
  a.accumulate_q = std::get<AttentionOpShape>(l.op.shape).add_q;
  a.accumulate_kv = std::get<AttentionOpShape>(l.op.shape).add_kv;
  l.kernels.attention_backward(l.stream, a);
}

void attention_merge(Launch const& l) {
  auto const& s = std::get<AttentionOpShape>(l.op.shape);
  l.kernels.attention_merge(l.stream,
                            {s.seq_q, s.batch, s.heads, s.value_dim, part(l, l.out(0)), part(l, l.in(0)),
                             l.data.as<float>(l.out(1)), l.data.as<float>(l.in(1)), s.statistic_stride, l.precision()});
}

void norm_forward(Launch const& l) {
  auto const& s = std::get<NormShape>(l.op.shape);
  NormForwardArgs a;
  a.kind = s.kind;
  a.x = l.data.at(l.in(0)), a.residual = l.data.at(l.in(1)), a.weight = l.data.at(l.in(2)), a.bias = l.data.at(l.in(3));
  a.y = l.data.at(l.out(0)), a.mean = l.data.as<float>(l.out(1)), a.rstd = l.data.as<float>(l.out(2)),
  a.sum = l.data.at(l.out(3));
  a.rows = s.rows, a.cols = s.cols, a.heads = s.heads;
  a.x_stride = row_stride(l.in(0), s.cols), a.y_stride = row_stride(l.out(0), s.cols);
  a.eps = s.eps, a.weight_offset = s.weight_offset, a.dtype = l.precision();
  l.kernels.norm_forward(l.stream, a);
}

void norm_backward(Launch const& l) {
  auto const& s = std::get<NormShape>(l.op.shape);
  NormBackwardArgs a;
  a.kind = s.kind;
  a.dy = l.data.at(l.in(0)), a.x = l.data.at(l.in(1)), a.weight = l.data.at(l.in(2));
  a.mean = l.data.as<float>(l.in(3)), a.rstd = l.data.as<float>(l.in(4)), a.dsum = l.data.at(l.in(5));
  a.dx = l.data.at(l.out(0)), a.dweight = l.data.as<float>(l.out(1)), a.dbias = l.data.as<float>(l.out(2));
  a.rows = s.rows, a.cols = s.cols, a.heads = s.heads;
  a.x_stride = row_stride(l.in(1), s.cols), a.y_stride = row_stride(l.in(0), s.cols);
  a.weight_offset = s.weight_offset, a.accumulate = l.adds, a.dtype = l.precision();
  l.kernels.norm_backward(l.stream, a);
}

void rope(Launch const& l) {
  auto const& s = std::get<RopeShape>(l.op.shape);
  RopeArgs a;
  a.x = l.data.at(l.out(0));
  a.seq = s.seq, a.batch = s.batch, a.heads = s.heads, a.head_dim = s.head_dim, a.rotary_dim = s.rotary_dim;
  a.row_stride = l.data.stride(l.out(0));
  a.rule = s.rule, a.positions = l.data.as<std::int32_t>(l.in(1)), a.inverse = s.inverse, a.dtype = l.precision();
  l.kernels.rope(l.stream, a);
}

void activation_forward(Launch const& l) {
  auto const& s = std::get<ActivationShape>(l.op.shape);
  l.kernels.activation_forward(
      l.stream, {s.kind, s.gated, l.data.at(l.in(0)), l.data.at(l.out(0)), l.rows_here(s.rows), s.cols, l.precision()});
}

void activation_backward(Launch const& l) {
  auto const& s = std::get<ActivationShape>(l.op.shape);
  l.kernels.activation_backward(l.stream, {s.kind, s.gated, l.data.at(l.in(0)), l.data.at(l.in(1)), l.data.at(l.out(0)),
                                           l.rows_here(s.rows), s.cols, l.precision()});
}

void embedding_forward(Launch const& l) {
  auto const& s = std::get<EmbeddingShape>(l.op.shape);
  l.kernels.embedding_forward(l.stream, {l.data.as<std::int32_t>(l.in(0)), l.data.at(l.in(1)), l.data.at(l.out(0)),
                                         s.tokens, s.rows, s.cols, s.first_row, l.adds, l.precision(), s.scale});
}

void embedding_backward(Launch const& l) {
  auto const& s = std::get<EmbeddingShape>(l.op.shape);
  l.kernels.embedding_backward(
      l.stream, {l.data.as<std::int32_t>(l.in(0)), l.data.at(l.in(1)), l.data.as<float>(l.out(0)), s.tokens, s.rows,
                 s.cols, s.first_row, l.adds, l.precision(), s.scale});
}

CrossEntropyShape loss_shape(Launch const& l) {
  auto const& s = std::get<CrossEntropyOpShape>(l.op.shape);
  return {l.data.at(l.in(0)), l.data.as<std::int32_t>(l.in(1)),
          s.tokens,           s.columns,
          s.first_column,     s.valid_vocab,
          l.precision(),      s.softcap};
}

void loss_max(Launch const& l) { l.kernels.cross_entropy_max(l.stream, {loss_shape(l), l.data.as<float>(l.out(0))}); }
void loss_sum(Launch const& l) {
  l.kernels.cross_entropy_sum(l.stream, {loss_shape(l), l.data.as<float>(l.in(2)), l.data.as<float>(l.out(0))});
}
void loss_value(Launch const& l) {
  float const scale = std::get<CrossEntropyOpShape>(l.op.shape).scale;
  l.kernels.cross_entropy_loss(l.stream,
                               {loss_shape(l), l.data.as<float>(l.in(2)), l.data.as<float>(l.out(0)), scale, l.adds});
}
void loss_backward(Launch const& l) {
  float const scale = std::get<CrossEntropyOpShape>(l.op.shape).scale;
  l.kernels.cross_entropy_backward(
      l.stream, {loss_shape(l), l.data.as<float>(l.in(2)), l.data.as<float>(l.in(3)), l.data.at(l.out(0)), scale});
}

void add(Launch const& l) {
  auto const& s = std::get<BlockShape>(l.op.shape);
  l.kernels.add(l.stream, {l.data.at(l.in(0)), l.data.at(l.in(1)), l.data.at(l.out(0)), s.rows * s.cols, s.scale,
                           l.data.dtype(l.out(0))});
}

void column_sum(Launch const& l) {
  auto const& s = std::get<BlockShape>(l.op.shape);
  l.kernels.column_sum(l.stream,
                       {l.data.at(l.in(0)), l.data.as<float>(l.out(0)), s.rows, s.cols, l.adds, l.data.dtype(l.in(0))});
}

void copy_block(Launch const& l) {
  auto const& s = std::get<BlockShape>(l.op.shape);
  if (l.adds) {
    l.kernels.add(l.stream, {l.data.at(l.out(0)), l.data.at(l.in(0)), l.data.at(l.out(0)), s.rows * s.cols, 1,
                             l.data.dtype(l.out(0))});
    return;
  }
  l.kernels.copy_block(l.stream,
                       {l.data.at(l.in(0)), l.data.at(l.out(0)), s.rows, s.cols, row_stride(l.in(0), s.cols),
                        row_stride(l.out(0), s.cols), l.data.dtype(l.in(0)), l.data.dtype(l.out(0)), s.scale});
}

LatentKeyShape latent_keys(Launch const& l, TensorRef const& plain, TensorRef const& rotary) {
  auto const& s = std::get<LatentKeysShape>(l.op.shape);
  return {s.rows,
          s.heads,
          s.plain_dim,
          s.rotary_dim,
          row_stride(plain, s.heads * s.plain_dim),
          row_stride(rotary, s.rotary_dim),
          l.precision()};
}

void join_keys(Launch const& l) {
  l.kernels.join_keys(l.stream,
                      {latent_keys(l, l.in(0), l.in(1)), l.data.at(l.in(0)), l.data.at(l.in(1)), l.data.at(l.out(0))});
}

void split_keys(Launch const& l) {
  l.kernels.split_keys(
      l.stream, {latent_keys(l, l.out(0), l.out(1)), l.data.at(l.in(0)), l.data.at(l.out(0)), l.data.at(l.out(1))});
}

void cache_append(Launch const& l) {
  auto const& s = std::get<BlockShape>(l.op.shape);
  TensorRef to = l.out(0);
  to.offset += l.data.position() * l.data.program().micro_batch * to.stride;
  l.kernels.copy_block(l.stream, {l.data.at(l.in(0)), l.data.at(to), s.rows, s.cols, row_stride(l.in(0), s.cols),
                                  to.stride, l.precision(), l.precision()});
}

void best_token(Launch const& l) {
  auto const& s = std::get<GreedyShape>(l.op.shape);
  l.kernels.best_token(l.stream, {l.data.at(l.in(0)), l.data.as<float>(l.out(0)), s.rows, s.columns, s.first_column,
                                  l.data.program().vocab, l.precision()});
}

void pick_token(Launch const& l) {
  auto const& s = std::get<GreedyShape>(l.op.shape);
  l.kernels.pick_token(l.stream, {l.data.as<float>(l.in(0)), l.data.as<std::int32_t>(l.out(0)), s.parts, s.rows});
}

void dropout(Launch const& l) {
  auto const& s = std::get<DropoutShape>(l.op.shape);
  StepProgram const& p = l.data.program();
  DropoutArgs a;
  a.x = l.data.at(l.in(0)), a.bias = l.data.at(l.in(1)), a.residual = l.data.at(l.in(2)), a.out = l.data.at(l.out(0));
  a.rows = s.rows, a.cols = s.cols, a.rate = s.rate;
  a.key = l.place.random ^ s.site;
  a.positions = l.data.as<std::int32_t>(l.in(3));
  a.batch = s.batch, a.copies = s.copies, a.seq = p.seq;
  a.first_sample = p.first_sample + l.data.microbatch() * p.micro_batch;
  a.dtype = l.precision();
  l.kernels.dropout(l.stream, a);
}

void square_sum(Launch const& l) {
  l.kernels.square_sum(l.stream, {l.data.at(l.in(0)), l.data.as<float>(l.out(0)), std::get<BlockShape>(l.op.shape).cols,
                                  l.adds, l.data.dtype(l.in(0))});
}

void clip_factor(Launch const& l) {
  l.kernels.clip_factor(
      l.stream, {l.data.as<float>(l.in(0)), l.data.as<float>(l.out(0)), std::get<ClipShape>(l.op.shape).max_norm});
}

void adamw(Launch const& l) {
  AdamWArgs a;
  a.gradient = l.data.at(l.in(0));
  a.parameter = l.data.at(l.out(0)), a.master = l.data.as<float>(l.out(1));
  a.exp_avg = l.data.as<float>(l.out(2)), a.exp_avg_sq = l.data.as<float>(l.out(3));
  a.count = std::get<AdamWShape>(l.op.shape).count;
  a.step = l.place.step;
  a.gradient_scale = l.data.as<float>(l.in(1));
  a.learning_rate = l.optimizer.learning_rate, a.beta1 = l.optimizer.beta1, a.beta2 = l.optimizer.beta2;
  a.eps = l.optimizer.eps, a.weight_decay = l.optimizer.weight_decay;
  a.parameter_dtype = l.data.dtype(l.out(0)), a.gradient_dtype = l.data.dtype(l.in(0));
  l.kernels.adamw(l.stream, a);
}

void grouped_gemm(Launch const& l) {
  auto const& s = std::get<GroupedGemmShape>(l.op.shape);
  std::vector<std::int32_t> const offsets = l.counts->expert_offsets();
  GroupedGemmArgs a;
  a.a = l.data.at(l.in(0)), a.b = l.data.at(l.in(1)), a.c = l.data.at(l.out(0));
  a.offsets = offsets.data();
  a.groups = s.groups, a.m = s.m, a.n = s.n, a.k = s.k;
  a.transpose_b = s.transpose_b, a.weight_gradient = s.weight_gradient;
  a.beta = l.adds ? 1.0f : 0.0f;
  a.input_dtype = l.data.dtype(l.in(0)), a.output_dtype = l.data.dtype(l.out(0));
  l.kernels.grouped_gemm(l.stream, a);
}

void router_forward(Launch const& l) {
  auto const& s = std::get<RouterShape>(l.op.shape);
  PrescribedChoice const prescribed{l.data.as<std::int32_t>(l.in(2)), l.data.as<std::int32_t>(l.in(3)), s.period,
                                    s.rotation};
  l.kernels.router_forward(
      l.stream, {s.rule, prescribed, l.data.at(l.in(0)), l.data.as<float>(l.in(1)), l.data.as<float>(l.out(0)),
                 l.data.as<std::int32_t>(l.out(1)), s.tokens, l.data.dtype(l.in(0))});
}

void router_backward(Launch const& l) {
  auto const& s = std::get<RouterShape>(l.op.shape);
  l.kernels.router_backward(l.stream,
                            {s.rule, l.data.at(l.in(0)), l.data.as<std::int32_t>(l.in(1)), l.data.as<float>(l.in(2)),
                             l.data.at(l.out(0)), s.tokens, l.data.dtype(l.in(0))});
}

void expert_rows(Launch const& l) {
  auto const& s = std::get<RowsShape>(l.op.shape);
  l.kernels.expert_rows(
      l.stream, {l.data.as<std::int32_t>(l.in(0)), l.data.as<std::int32_t>(l.in(1)), l.data.as<std::int32_t>(l.out(0)),
                 l.data.as<std::int32_t>(l.out(1)), s.tokens, s.top_k, s.experts, s.ranks, s.copies, s.earlier,
                 s.capacity, l.data.as<std::int32_t>(l.in(2))});
}

void source_rows(Launch const& l) {
  auto const& s = std::get<RowsShape>(l.op.shape);
  l.kernels.source_rows(l.stream, {l.data.as<std::int32_t>(l.in(0)), l.data.as<std::int32_t>(l.out(0)), s.ranks,
                                   s.experts, l.counts->total_received()});
}

void permute(Launch const& l) {
  auto const& s = std::get<PermuteShape>(l.op.shape);
  l.kernels.permute(
      l.stream, {l.data.at(l.in(0)), l.data.as<std::int32_t>(l.in(1)), l.data.as<float>(l.in(2)), l.data.at(l.out(0)),
                 l.rows_here(s.tokens), s.slots, s.copies, s.cols, l.rows_here(s.sorted), l.precision()});
}

void unpermute(Launch const& l) {
  auto const& s = std::get<PermuteShape>(l.op.shape);
  l.kernels.unpermute(
      l.stream, {l.data.at(l.in(0)), l.data.as<std::int32_t>(l.in(1)), l.data.as<float>(l.in(2)), l.data.at(l.out(0)),
                 l.rows_here(s.tokens), s.slots, s.copies, s.cols, l.rows_here(s.sorted), l.precision()});
}

void combine_weights(Launch const& l) {
  auto const& s = std::get<PermuteShape>(l.op.shape);
  l.kernels.combine_weights(
      l.stream, {l.data.at(l.in(0)), l.data.at(l.in(1)), l.data.as<std::int32_t>(l.in(2)), l.data.as<float>(l.out(0)),
                 s.tokens, s.slots, s.copies, s.cols, s.sorted, l.precision()});
}

/// By OpKind; nullptr where no kernel runs the op.
constexpr std::array<LaunchFunction, op_kind_count> launchers = [] {
  std::array<LaunchFunction, op_kind_count> table{};
  auto const set = [&](OpKind kind, LaunchFunction f) { table[static_cast<std::size_t>(kind)] = f; };
  set(OpKind::gemm, gemm);
  set(OpKind::attention_forward, attention_forward);
  set(OpKind::attention_backward, attention_backward);
  set(OpKind::attention_merge, attention_merge);
  set(OpKind::norm_forward, norm_forward);
  set(OpKind::norm_backward, norm_backward);
  set(OpKind::rope, rope);
  set(OpKind::activation_forward, activation_forward);
  set(OpKind::activation_backward, activation_backward);
  set(OpKind::embedding_forward, embedding_forward);
  set(OpKind::embedding_backward, embedding_backward);
  set(OpKind::cross_entropy_max, loss_max);
  set(OpKind::cross_entropy_sum, loss_sum);
  set(OpKind::cross_entropy_loss, loss_value);
  set(OpKind::cross_entropy_backward, loss_backward);
  set(OpKind::add, add);
  set(OpKind::column_sum, column_sum);
  set(OpKind::copy_block, copy_block);
  set(OpKind::adamw, adamw);
  set(OpKind::grouped_gemm, grouped_gemm);
  set(OpKind::router_forward, router_forward);
  set(OpKind::router_backward, router_backward);
  set(OpKind::expert_rows, expert_rows);
  set(OpKind::source_rows, source_rows);
  set(OpKind::permute, permute);
  set(OpKind::unpermute, unpermute);
  set(OpKind::combine_weights, combine_weights);
  set(OpKind::cache_append, cache_append);
  set(OpKind::best_token, best_token);
  set(OpKind::pick_token, pick_token);
  set(OpKind::join_keys, join_keys);
  set(OpKind::split_keys, split_keys);
  set(OpKind::dropout, dropout);
  set(OpKind::square_sum, square_sum);
  set(OpKind::clip_factor, clip_factor);
  return table;
}();

LaunchFunction launcher_of(OpKind kind) {
  LaunchFunction const launch = launchers[static_cast<std::size_t>(kind)];
  return launch ? launch : vision_launcher(kind);
}

}  // namespace

void launch_compute(KernelSet const& kernels, Stream& stream, Op const& op, Operands const& operands, bool adds,
                    OptimizerSettings const& optimizer, StepPlace place, std::optional<RoutedCounts> const& counts) {
  LaunchFunction const launch = launcher_of(op.kind);
  VALIDATE(launch, fmt::format("no kernel runs {}", to_string(op.kind)));
  launch({kernels, stream, op, operands, adds, optimizer, place, counts});
}

std::string not_executable(StepProgram const& program) {
  for (Segment const& segment : program.segments)
    for (Op const& op : segment.ops)
      if (!is_communication(op.kind) && op.kind != OpKind::fetch_counts && !launcher_of(op.kind))
        return fmt::format("{} is counted and simulated, and has no kernel to execute it", to_string(op.kind));
  return {};
}

}  // namespace shardbench
