// Who communicates with whom, by hand: ranks are tp fastest, then cp, dp, pp (Megatron-LM's order).
#include "harness/sharding/groups.hpp"

#include <gtest/gtest.h>

namespace shardbench {
namespace {

using Ranks = std::vector<std::int64_t>;

/// 24 ranks: rank = tp + 2 cp + 6 dp + 12 pp.
Experiment all_axes() {
  Experiment e;
  e.cut.tp = 2, e.cut.cp = 3, e.cut.dp = 2, e.cut.pp = 2;
  e.cut.schedule = ScheduleKind::one_f_one_b;
  e.model.kv_heads = 8;
  return e;
}

Ranks members(Experiment const& e, std::int64_t rank, GroupKind kind) {
  return communication_groups(e, rank)[kind].members;
}

TEST(Groups, TpCpDpAndPpTogether) {
  Experiment const e = all_axes();
  // Rank 17 = 1 + 2 * 2 + 6 * 0 + 12 * 1.
  EXPECT_EQ(members(e, 17, GroupKind::tp), (Ranks{16, 17}));
  EXPECT_EQ(members(e, 17, GroupKind::cp), (Ranks{13, 15, 17}));
  EXPECT_EQ(members(e, 17, GroupKind::dp), (Ranks{17, 23}));
  EXPECT_EQ(members(e, 17, GroupKind::pp), (Ranks{5, 17}));
  EXPECT_EQ(members(e, 17, GroupKind::dp_cp), (Ranks{13, 15, 17, 19, 21, 23}));
  // Rank 8 = 0 + 2 * 1 + 6 * 1 + 12 * 0.
  EXPECT_EQ(members(e, 8, GroupKind::tp), (Ranks{8, 9}));
  EXPECT_EQ(members(e, 8, GroupKind::cp), (Ranks{6, 8, 10}));
  EXPECT_EQ(members(e, 8, GroupKind::dp), (Ranks{2, 8}));
  EXPECT_EQ(members(e, 8, GroupKind::pp), (Ranks{8, 20}));
  EXPECT_EQ(representative_ranks(e), (Ranks{0, 12}));
}

TEST(Groups, AShardSetIsTheDataAndContextRanksOrBlocksOfThem) {
  Experiment e = all_axes();
  EXPECT_EQ(members(e, 17, GroupKind::shard), (Ranks{13, 15, 17, 19, 21, 23}));
  EXPECT_EQ(members(e, 17, GroupKind::replica), (Ranks{17}));
  e.cut.shard_ranks = 1;  // within one data rank: its 3 context ranks
  EXPECT_EQ(members(e, 17, GroupKind::shard), (Ranks{13, 15, 17}));
  EXPECT_EQ(members(e, 17, GroupKind::replica), (Ranks{17, 23}));
  EXPECT_EQ(members(e, 21, GroupKind::shard), (Ranks{19, 21, 23}));
  EXPECT_EQ(members(e, 21, GroupKind::replica), (Ranks{15, 21}));
}

TEST(Groups, ExpertsHaveAMeshOfTheirOwn) {
  Experiment e = all_axes();
  e.cut.etp = 2, e.cut.ep = 3;  // rank = etp + 2 ep + 6 edp + 12 pp
  EXPECT_EQ(members(e, 17, GroupKind::ep), (Ranks{12, 13, 14, 15, 16, 17}));
  EXPECT_EQ(members(e, 17, GroupKind::edp), (Ranks{17, 23}));
  EXPECT_EQ(members(e, 17, GroupKind::expert_shard), (Ranks{17, 23}));
  EXPECT_EQ(members(e, 17, GroupKind::expert_replica), (Ranks{17}));
  e.cut.shard_ranks = 1;
  EXPECT_EQ(members(e, 17, GroupKind::expert_shard), (Ranks{17}));
  EXPECT_EQ(members(e, 17, GroupKind::expert_replica), (Ranks{17, 23}));
  e.cut.etp = 1, e.cut.ep = 4;  // rank = ep + 4 edp + 12 pp: 17 = 1 + 4 * 1 + 12
  EXPECT_EQ(members(e, 17, GroupKind::ep), (Ranks{16, 17, 18, 19}));
  EXPECT_EQ(members(e, 17, GroupKind::edp), (Ranks{13, 17, 21}));
}

TEST(Groups, RanksThatHoldAKvHeadInCommon) {
  Experiment e;
  e.cut.tp = 8, e.cut.dp = 2;
  e.model.kv_heads = 2;
  EXPECT_EQ(members(e, 8 + 2, GroupKind::kv_replicas), (Ranks{8, 9, 10, 11}));
  EXPECT_EQ(members(e, 8 + 5, GroupKind::kv_replicas), (Ranks{12, 13, 14, 15}));
  e.model.kv_heads = 8;
  EXPECT_EQ(members(e, 10, GroupKind::kv_replicas), (Ranks{10}));
  e.model.kv_heads = 0;
  EXPECT_EQ(members(e, 10, GroupKind::kv_replicas), (Ranks{10}));
}

TEST(Groups, CopiesOnTwoStages) {
  Experiment e;
  e.cut.tp = 2, e.cut.pp = 4;
  e.cut.schedule = ScheduleKind::one_f_one_b;
  EXPECT_EQ(members(e, 1, GroupKind::tied_embedding), (Ranks{1, 7}));
  EXPECT_EQ(members(e, 7, GroupKind::tied_embedding), (Ranks{1, 7}));
  EXPECT_EQ(members(e, 3, GroupKind::tied_embedding), (Ranks{}));
  EXPECT_EQ(members(e, 3, GroupKind::pipeline_mirror), (Ranks{}));
  e.cut.schedule = ScheduleKind::dualpipe;  // stage s and pp - 1 - s
  EXPECT_EQ(members(e, 3, GroupKind::pipeline_mirror), (Ranks{3, 5}));
  EXPECT_EQ(members(e, 6, GroupKind::pipeline_mirror), (Ranks{0, 6}));
  EXPECT_EQ(members(e, 1, GroupKind::tied_embedding), (Ranks{}));
  e.cut.schedule = ScheduleKind::one_f_one_b, e.cut.pp = 1;
  EXPECT_EQ(members(e, 1, GroupKind::tied_embedding), (Ranks{}));
}

TEST(Groups, BytesGoToTheColumnOfTheAxis) {
  GroupTable const groups;
  EXPECT_EQ(groups[GroupKind::tp].axis, Axis::tp);
  EXPECT_EQ(groups[GroupKind::kv_replicas].axis, Axis::tp);
  EXPECT_EQ(groups[GroupKind::cp].axis, Axis::cp);
  for (GroupKind const kind : {GroupKind::dp, GroupKind::dp_cp, GroupKind::shard, GroupKind::replica, GroupKind::edp,
                               GroupKind::expert_shard, GroupKind::expert_replica})
    EXPECT_EQ(groups[kind].axis, Axis::dp) << to_string(kind);
  for (GroupKind const kind : {GroupKind::pp, GroupKind::tied_embedding, GroupKind::pipeline_mirror})
    EXPECT_EQ(groups[kind].axis, Axis::pp) << to_string(kind);
  EXPECT_EQ(groups[GroupKind::ep].axis, Axis::ep);
  for (Axis const axis : enum_values<Axis>()) {
    EXPECT_EQ(groups[group_of(axis)].axis, axis);
    EXPECT_EQ(to_string(group_of(axis)), to_string(axis));
  }
  EXPECT_EQ(groups[GroupKind::dp_cp].name, "dp_cp");
}

}  // namespace
}  // namespace shardbench
