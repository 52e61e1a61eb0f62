#pragma once
#include "harness/record/lane.hpp"
#include "harness/config/axis.hpp"
#include "kernels/core/index.hpp"

namespace shardbench {

/// The lane whose columns an axis is reported in.
constexpr Lane lane_of(Axis axis) {
  constexpr EnumArray<Axis, Lane> lanes{{Lane::tp, Lane::cp, Lane::dp, Lane::pp, Lane::ep}};
  return lanes[axis];
}

}  // namespace shardbench
