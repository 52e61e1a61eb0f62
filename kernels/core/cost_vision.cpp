#include "kernels/core/cost_vision.hpp"

namespace shardbench {
namespace {

/// `flops`, and `elements` of the storage type moved.
OpCost streaming(double flops, std::int64_t elements, Dtype dtype) {
  return {flops, static_cast<double>(elements) * static_cast<double>(bytes_of(dtype))};
}

}  // namespace

OpCost im2col_cost(std::int64_t image_elements, std::int64_t column_elements, Dtype dtype) {
  return streaming(0, image_elements + column_elements, dtype);
}

OpCost col2im_cost(std::int64_t image_elements, std::int64_t column_elements, Dtype dtype) {
  return streaming(static_cast<double>(column_elements), image_elements + column_elements, dtype);
}

OpCost depthwise_forward_cost(std::int64_t in_elements, std::int64_t out_elements, std::int64_t taps, Dtype dtype) {
  return streaming(2.0 * static_cast<double>(taps * out_elements), in_elements + out_elements, dtype);
}

OpCost depthwise_backward_cost(std::int64_t in_elements, std::int64_t out_elements, std::int64_t taps, Dtype dtype) {
  return streaming(4.0 * static_cast<double>(taps * out_elements), 2 * in_elements + out_elements, dtype);
}

OpCost batch_norm_forward_cost(std::int64_t rows, std::int64_t cols, Dtype dtype) {
  return streaming(7.0 * static_cast<double>(rows * cols), 2 * rows * cols, dtype);
}

OpCost batch_norm_backward_cost(std::int64_t rows, std::int64_t cols, Dtype dtype) {
  return streaming(14.0 * static_cast<double>(rows * cols), 3 * rows * cols, dtype);
}

OpCost max_pool_forward_cost(std::int64_t in_elements, std::int64_t out_elements, std::int64_t taps, Dtype dtype) {
  OpCost cost = streaming(static_cast<double>(taps * out_elements), in_elements + out_elements, dtype);
  cost.bytes += static_cast<double>(out_elements);
  return cost;
}

OpCost max_pool_backward_cost(std::int64_t in_elements, std::int64_t out_elements, Dtype dtype) {
  OpCost cost = streaming(static_cast<double>(out_elements), in_elements + out_elements, dtype);
  cost.bytes += static_cast<double>(out_elements);
  return cost;
}

OpCost upsample_cost(std::int64_t small_elements, std::int64_t factor, Dtype dtype, bool backward) {
  std::int64_t const large = small_elements * factor * factor;
  return streaming(backward ? static_cast<double>(large) : 0.0, small_elements + large, dtype);
}

OpCost pool_rows_cost(std::int64_t all_rows, std::int64_t pooled_rows, std::int64_t batch, std::int64_t cols,
                      Dtype dtype, bool backward) {
  std::int64_t const row = batch * cols;
  return backward ? streaming(static_cast<double>(pooled_rows * row), (all_rows + 1) * row, dtype)
                  : streaming(2.0 * static_cast<double>(pooled_rows * row), (pooled_rows + 1) * row, dtype);
}

}  // namespace shardbench
