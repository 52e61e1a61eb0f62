#include "harness/program/analysis/count_vision.hpp"

#include "kernels/core/cost_vision.hpp"

namespace shardbench {
namespace {

OpCost window_cost(OpKind kind, WindowShape const& w, Dtype t) {
  std::int64_t const in = w.rows() * w.channels, out = w.out_rows() * w.channels;
  switch (kind) {
    case OpKind::im2col:
      return im2col_cost(in, out * w.taps(), t);
    case OpKind::col2im:
      return col2im_cost(in, out * w.taps(), t);
    case OpKind::depthwise_forward:
      return depthwise_forward_cost(in, out, w.taps(), t);
    case OpKind::depthwise_backward:
      return depthwise_backward_cost(in, out, w.taps(), t);
    case OpKind::max_pool_forward:
      return max_pool_forward_cost(in, out, w.taps(), t);
    default:
      return max_pool_backward_cost(in, out, t);
  }
}

}  // namespace

OpCost vision_op_cost(Op const& op, Dtype t) {
  if (auto const* w = std::get_if<WindowShape>(&op.shape)) return window_cost(op.kind, *w, t);
  if (auto const* s = std::get_if<BatchNormShape>(&op.shape))
    return op.kind == OpKind::batch_norm_forward ? batch_norm_forward_cost(s->rows, s->cols, t)
                                                 : batch_norm_backward_cost(s->rows, s->cols, t);
  if (auto const* s = std::get_if<UpsampleShape>(&op.shape))
    return upsample_cost(s->height * s->width * s->batch * s->channels, s->factor, t,
                         op.kind == OpKind::upsample_backward);
  if (auto const* s = std::get_if<PoolRowsShape>(&op.shape))
    return pool_rows_cost(s->seq, s->end - s->begin, s->batch, s->cols, t, op.kind == OpKind::pool_rows_backward);
  return {};
}

double vision_model_flops(Op const& op, Dtype t) {
  bool const depthwise = op.kind == OpKind::depthwise_forward || op.kind == OpKind::depthwise_backward;
  return depthwise ? vision_op_cost(op, t).flops : 0;
}

}  // namespace shardbench
