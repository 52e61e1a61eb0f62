#pragma once
#include "kernels/core/cost.hpp"

namespace shardbench {

/// No FLOPs: the image read, its columns written.
OpCost im2col_cost(std::int64_t image_elements, std::int64_t column_elements, Dtype dtype);
/// One addition a column element.
OpCost col2im_cost(std::int64_t image_elements, std::int64_t column_elements, Dtype dtype);
/// 2 FLOPs a tap and output element.
OpCost depthwise_forward_cost(std::int64_t in_elements, std::int64_t out_elements, std::int64_t taps, Dtype dtype);
/// Input and weight gradient: 4 FLOPs a tap and output element; dy and x read, dx written.
OpCost depthwise_backward_cost(std::int64_t in_elements, std::int64_t out_elements, std::int64_t taps, Dtype dtype);
/// 7 FLOPs an element: mean, squared deviation, scale and shift.
OpCost batch_norm_forward_cost(std::int64_t rows, std::int64_t cols, Dtype dtype);
/// 14 FLOPs an element; dy and x read, dx written.
OpCost batch_norm_backward_cost(std::int64_t rows, std::int64_t cols, Dtype dtype);
/// A comparison a tap and output element; the tap is kept in a byte.
OpCost max_pool_forward_cost(std::int64_t in_elements, std::int64_t out_elements, std::int64_t taps, Dtype dtype);
/// One addition an output element.
OpCost max_pool_backward_cost(std::int64_t in_elements, std::int64_t out_elements, Dtype dtype);
/// No FLOPs forward, one addition a large element backward; both images touched once.
OpCost upsample_cost(std::int64_t small_elements, std::int64_t factor, Dtype dtype, bool backward);
/// 2 FLOPs an element of the pooled rows forward, one backward (which writes all of dx).
OpCost pool_rows_cost(std::int64_t all_rows, std::int64_t pooled_rows, std::int64_t batch, std::int64_t cols,
                      Dtype dtype, bool backward);

}  // namespace shardbench
