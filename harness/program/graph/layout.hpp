#pragma once
#include "harness/config/axis.hpp"
#include "harness/sharding/placement.hpp"
#include "kernels/core/index.hpp"

namespace shardbench {

/// Dims of an activation, for Shard: [sequence, batch, feature]. Rows of its tensor are (sequence, batch).
/// `inner_feature_dim` are the features that remain of a cut of them by an outer axis: what Ulysses cuts inside tp's
/// part.
inline constexpr int sequence_dim = 0, batch_dim = 1, feature_dim = 2, inner_feature_dim = 3;

/// How an activation lies on the mesh: a placement for each axis.
using Layout = EnumArray<Axis, Placement>;

/// `layout` with another placement along one axis.
inline Layout with(Layout layout, Axis axis, Placement const& placement) {
  layout[axis] = placement;
  return layout;
}

/// How the gradient of a value that lies like `forward` lies.
inline Layout gradient_layout(Layout layout) {
  for (Placement& placement : layout) placement = gradient_placement(placement);
  return layout;
}

}  // namespace shardbench
