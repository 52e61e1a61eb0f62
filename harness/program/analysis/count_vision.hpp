#pragma once
#include "harness/program/step_program.hpp"
#include "kernels/core/cost.hpp"

namespace shardbench {

/// Cost of an op of images and convolutions (patches, depthwise, batch norm, pools); nothing for any other kind.
OpCost vision_op_cost(Op const& op, Dtype dtype);

/// Model FLOPs of a depthwise convolution: its multiply-adds; 0 for any other kind.
double vision_model_flops(Op const& op, Dtype dtype);

}  // namespace shardbench
