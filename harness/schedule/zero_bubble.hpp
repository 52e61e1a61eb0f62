#pragma once
#include "harness/schedule/schedule.hpp"

namespace shardbench {

/// Orders stages that run input and weight gradients apart, weight gradients filling what would be a bubble, where each
/// may hold `cap` activations. Plays with several degrees of patience and hurry along the stages and keeps the shortest
/// game (the first of equals).
void order_zero_bubble(PipelineSchedule& schedule, std::int32_t cap);

}  // namespace shardbench
