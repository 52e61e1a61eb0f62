#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "harness/config/experiment.hpp"
#include "harness/config/axis.hpp"
#include "kernels/core/index.hpp"

namespace shardbench {

/// A set of ranks that communicate, and the axis whose column their bytes go to.
struct Group {
  std::string name;
  Axis axis = Axis::tp;
  std::vector<std::int64_t> members;  ///< global ranks in group order; empty when this rank takes no part
};

using GroupId = Id<Group>;

/// What a group is for: one of its axis, or the parts and copies of a ZeRO shard set (of the experts' too), the ranks
/// that hold a KV head in common, and those that hold a copy of a weight on two stages.
enum class GroupKind : std::uint8_t {
  tp,
  cp,
  dp,
  dp_cp,
  shard,
  replica,
  pp,
  ep,
  edp,
  kv_replicas,
  expert_shard,
  expert_replica,
  tied_embedding,
  pipeline_mirror,
  size_
};
std::string_view to_string(GroupKind kind);

/// The number by which ops name the group of a kind, and back.
constexpr GroupId id_of(GroupKind kind) { return GroupId(static_cast<int>(kind)); }
constexpr GroupKind kind_of(GroupId id) { return static_cast<GroupKind>(std::int32_t{id}); }

/// The ranks along one axis of the mesh.
constexpr GroupKind group_of(Axis axis) {
  constexpr EnumArray<Axis, GroupKind> kinds{{GroupKind::tp, GroupKind::cp, GroupKind::dp, GroupKind::pp, GroupKind::ep}};
  return kinds[axis];
}

/// A rank's groups, by kind or by number; at first all without members.
struct GroupTable : EnumArray<GroupKind, Group> {
  GroupTable();
  using EnumArray<GroupKind, Group>::operator[];
  Group& operator[](GroupId id) { return (*this)[kind_of(id)]; }
  Group const& operator[](GroupId id) const { return (*this)[kind_of(id)]; }
};

/// The communication groups of `rank`; those that it takes no part in have no members.
GroupTable communication_groups(Experiment const& experiment, std::int64_t rank);

/// One rank for each pipeline stage (tensor, context and data coordinates 0): the ranks of a stage do the same work.
std::vector<std::int64_t> representative_ranks(Experiment const& experiment);

}  // namespace shardbench
