#include "harness/sharding/groups.hpp"

#include <algorithm>

#include "harness/schedule/schedule_rules.hpp"
#include "harness/sharding/device_mesh.hpp"

namespace shardbench {

namespace {

DeviceMesh dense_mesh(Cut const& c) { return DeviceMesh({{"tp", c.tp}, {"cp", c.cp}, {"dp", c.dp}, {"pp", c.pp}}); }

DeviceMesh expert_mesh(Cut const& c) {
  return DeviceMesh({{"etp", c.etp}, {"ep", c.ep}, {"edp", c.tp * c.cp * c.dp / (c.etp * c.ep)}, {"pp", c.pp}});
}

/// Members of the group that hold the parts of one ZeRO shard set with `rank`, or its copies of the same part: blocks
/// of `parts` neighbours each hold everything once.
std::vector<std::int64_t> sharding(std::vector<std::int64_t> const& group, std::int64_t rank, std::int64_t parts,
                                   bool copies) {
  auto const index = std::ranges::find(group, rank) - group.begin();
  std::vector<std::int64_t> members;
  for (std::ptrdiff_t at = 0; at < std::ssize(group); ++at)
    if (copies ? at % parts == index % parts : at / parts == index / parts) members.push_back(group[at]);
  return members;
}

/// Neighbouring tensor-parallel ranks that hold the same KV head.
std::vector<std::int64_t> kv_replicas(ModelConfig const& m, std::vector<std::int64_t> const& tp_group,
                                      std::int64_t index) {
  auto const tp = static_cast<std::int64_t>(tp_group.size());
  std::int64_t const copies = m.kv_heads > 0 && m.kv_heads < tp ? tp / m.kv_heads : 1;
  auto const first = tp_group.begin() + index / copies * copies;
  return {first, first + copies};
}

}  // namespace

std::string_view to_string(GroupKind kind) {
  constexpr EnumNames<GroupKind> names{
      "tp", "cp",  "dp",          "dp_cp",        "shard",          "replica",        "pp",
      "ep", "edp", "kv_replicas", "expert_shard", "expert_replica", "tied_embedding", "pipeline_mirror"};
  return names[kind];
}

GroupTable::GroupTable() {
  constexpr EnumArray<GroupKind, Axis> axes{{Axis::tp, Axis::cp, Axis::dp, Axis::dp, Axis::dp, Axis::dp, Axis::pp,
                                             Axis::ep, Axis::dp, Axis::tp, Axis::dp, Axis::dp, Axis::pp, Axis::pp}};
  for (GroupKind const kind : enum_values<GroupKind>()) (*this)[kind] = {std::string(to_string(kind)), axes[kind], {}};
}

GroupTable communication_groups(Experiment const& e, std::int64_t rank) {
  Cut const& c = e.cut;
  DeviceMesh const dense = dense_mesh(c), experts = expert_mesh(c);
  auto const at = dense.coordinate_of(rank);
  auto const tp = dense.group_of(rank, {"tp"});
  auto const column = dense.group_of(rank, {"pp"});
  std::int64_t const stage = at[3];
  auto const data = dense.group_of(rank, {"cp", "dp"});
  // Context ranks share a shard set with their data rank, as dp and cp are one group for gradients.
  std::int64_t const parts = (c.shard_ranks > 0 ? c.shard_ranks : c.dp) * c.cp;
  GroupTable groups;
  groups[GroupKind::tp].members = tp;
  groups[GroupKind::cp].members = dense.group_of(rank, {"cp"});
  groups[GroupKind::dp].members = dense.group_of(rank, {"dp"});
  groups[GroupKind::dp_cp].members = data;
  groups[GroupKind::shard].members = sharding(data, rank, parts, false);
  groups[GroupKind::replica].members = sharding(data, rank, parts, true);
  groups[GroupKind::pp].members = column;
  groups[GroupKind::ep].members = experts.group_of(rank, {"etp", "ep"});
  groups[GroupKind::kv_replicas].members = kv_replicas(e.model, tp, at[0]);
  auto const edp = experts.group_of(rank, {"edp"});
  // Copies of an expert's shard set are as many as those of the dense part; illegal cuts were refused before.
  std::int64_t const expert_parts =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(edp.size()) * parts / static_cast<std::int64_t>(data.size()));
  groups[GroupKind::edp].members = edp;
  groups[GroupKind::expert_shard].members = sharding(edp, rank, expert_parts, false);
  groups[GroupKind::expert_replica].members = sharding(edp, rank, expert_parts, true);
  ScheduleRules const& rules = rules_of(c.schedule);
  bool const apart = !rules.two_directions();  // the first and the last piece
  if (c.pp > 1 && apart && (stage == 0 || stage == c.pp - 1))
    groups[GroupKind::tied_embedding].members = {column.front(), column.back()};
  if (rules.mirrored()) {
    auto const other = column[ScheduleRules::mirror_of(stage, c.pp)];
    groups[GroupKind::pipeline_mirror].members = {std::min(rank, other), std::max(rank, other)};
  }
  return groups;
}

std::vector<std::int64_t> representative_ranks(Experiment const& e) {
  DeviceMesh const mesh = dense_mesh(e.cut);
  std::vector<std::int64_t> ranks;
  for (std::int64_t stage = 0; stage < e.cut.pp; ++stage) ranks.push_back(mesh.rank_at({0, 0, 0, stage}));
  return ranks;
}

}  // namespace shardbench
