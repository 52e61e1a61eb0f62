// Launchers of the ops of images and convolutional networks.
#include "harness/exec/launch.hpp"

namespace shardbench {

namespace {

WindowShape const& window(Launch const& l) { return std::get<WindowShape>(l.op.shape); }

void im2col(Launch const& l) {
  l.kernels.im2col(l.stream, {window(l), l.data.at(l.in(0)), l.data.at(l.out(0)), l.precision()});
}

void col2im(Launch const& l) {
  l.kernels.col2im(l.stream, {window(l), l.data.at(l.in(0)), l.data.at(l.out(0)), l.precision()});
}

void depthwise_forward(Launch const& l) {
  l.kernels.depthwise_forward(l.stream,
                              {window(l), l.data.at(l.in(0)), l.data.at(l.in(1)), l.data.at(l.out(0)), l.precision()});
}

void depthwise_backward(Launch const& l) {
  l.kernels.depthwise_backward(l.stream, {window(l), l.data.at(l.in(0)), l.data.at(l.in(1)), l.data.at(l.in(2)),
                                          l.data.at(l.out(0)), l.data.as<float>(l.out(1)), l.adds, l.precision()});
}

void batch_norm_forward(Launch const& l) {
  auto const& s = std::get<BatchNormShape>(l.op.shape);
  BatchNormForwardArgs a;
  a.x = l.data.at(l.in(0)), a.weight = l.data.at(l.in(1)), a.bias = l.data.at(l.in(2));
  a.y = l.data.at(l.out(0)), a.mean = l.data.as<float>(l.out(1)), a.rstd = l.data.as<float>(l.out(2));
  a.rows = s.rows, a.cols = s.cols, a.eps = s.eps, a.dtype = l.precision();
  l.kernels.batch_norm_forward(l.stream, a);
}

void batch_norm_backward(Launch const& l) {
  auto const& s = std::get<BatchNormShape>(l.op.shape);
  BatchNormBackwardArgs a;
  a.dy = l.data.at(l.in(0)), a.x = l.data.at(l.in(1)), a.weight = l.data.at(l.in(2));
  a.mean = l.data.as<float>(l.in(3)), a.rstd = l.data.as<float>(l.in(4));
  a.dx = l.data.at(l.out(0)), a.dweight = l.data.as<float>(l.out(1)), a.dbias = l.data.as<float>(l.out(2));
  a.sums = l.data.as<float>(l.out(3));
  a.rows = s.rows, a.cols = s.cols, a.accumulate = l.adds, a.dtype = l.precision();
  l.kernels.batch_norm_backward(l.stream, a);
}

void max_pool_forward(Launch const& l) {
  l.kernels.max_pool_forward(
      l.stream, {window(l), l.data.at(l.in(0)), l.data.at(l.out(0)), l.data.as<std::uint8_t>(l.out(1)), l.precision()});
}

void max_pool_backward(Launch const& l) {
  l.kernels.max_pool_backward(
      l.stream, {window(l), l.data.at(l.in(0)), l.data.as<std::uint8_t>(l.in(1)), l.data.at(l.out(0)), l.precision()});
}

void upsample_forward(Launch const& l) {
  auto const& s = std::get<UpsampleShape>(l.op.shape);
  l.kernels.upsample_forward(l.stream, {s.height, s.width, s.batch, s.channels, s.factor, l.data.at(l.in(0)),
                                        l.data.at(l.out(0)), l.precision()});
}

void upsample_backward(Launch const& l) {
  auto const& s = std::get<UpsampleShape>(l.op.shape);
  l.kernels.upsample_backward(l.stream, {s.height, s.width, s.batch, s.channels, s.factor, l.data.at(l.in(0)),
                                         l.data.at(l.out(0)), l.precision()});
}

void pool_rows_forward(Launch const& l) {
  auto const& s = std::get<PoolRowsShape>(l.op.shape);
  l.kernels.pool_rows_forward(l.stream, {s.seq, s.batch, s.cols, s.begin, s.end, s.scale, l.data.at(l.in(0)),
                                         l.data.at(l.out(0)), l.precision()});
}

void pool_rows_backward(Launch const& l) {
  auto const& s = std::get<PoolRowsShape>(l.op.shape);
  l.kernels.pool_rows_backward(l.stream, {s.seq, s.batch, s.cols, s.begin, s.end, s.scale, l.data.at(l.in(0)),
                                          l.data.at(l.out(0)), l.precision()});
}

}  // namespace

LaunchFunction vision_launcher(OpKind kind) {
  switch (kind) {
    case OpKind::im2col:
      return im2col;
    case OpKind::col2im:
      return col2im;
    case OpKind::depthwise_forward:
      return depthwise_forward;
    case OpKind::depthwise_backward:
      return depthwise_backward;
    case OpKind::batch_norm_forward:
      return batch_norm_forward;
    case OpKind::batch_norm_backward:
      return batch_norm_backward;
    case OpKind::max_pool_forward:
      return max_pool_forward;
    case OpKind::max_pool_backward:
      return max_pool_backward;
    case OpKind::upsample_forward:
      return upsample_forward;
    case OpKind::upsample_backward:
      return upsample_backward;
    case OpKind::pool_rows_forward:
      return pool_rows_forward;
    case OpKind::pool_rows_backward:
      return pool_rows_backward;
    default:
      return nullptr;
  }
}

}  // namespace shardbench
