#include "harness/planner/chunk_costs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "harness/sharding/groups.hpp"
#include "tests/harness/planner/planned_models.hpp"

namespace shardbench::test {
namespace {

Group const& group_named(GroupTable const& groups, std::string_view name) {
  return *std::ranges::find(groups, name, &Group::name);
}

// What two stages hold copies of is summed over the ranks and in the buckets that a program's group has.
TEST(ChunkCosts, CopiesOfStagesCostWhatTheirGroupsTake) {
  CostModel const model = h100();
  struct Case {
    char const* model;
    ScheduleKind schedule;
    char const* group;
  };
  for (Case const& one : {Case{"llama3.1-8b", ScheduleKind::dualpipe, "pipeline_mirror"},
                          Case{"gpt2", ScheduleKind::one_f_one_b, "tied_embedding"},
                          Case{"gpt2", ScheduleKind::zb_v, "tied_embedding"}}) {
    PlanRequest request;
    request.base = base_of(one.model, 8, 1024, 64);
    request.devices = 16;
    // Four ranks a stage: the ends are on two nodes, neighbours on one.
    Candidate const cut{.tp = 4, .pp = 4, .schedule = one.schedule};
    LayerCostTable table(request, model);
    NetworkMemo network(model);
    ChunkCosts const costs(request, model, network, cut, table.of(layer_key(cut)));
    PieceCost held;
    held.parameters = 1e9, held.buckets = 7.2, held.expert_buckets = 1.1;
    Experiment e = experiment_of(request, cut);
    for (std::int64_t stage = 0; stage < cut.pp; ++stage) {
      std::int64_t const rank = representative_ranks(e)[stage];
      auto const groups = communication_groups(e, rank);
      std::vector<std::int64_t> const members = group_named(groups, one.group).members;
      double const ms = costs.copies_ms(stage, held);
      if (members.empty()) {
        EXPECT_EQ(ms, 0) << one.group << " stage " << stage;
        continue;
      }
      bool const mirror = one.schedule == ScheduleKind::dualpipe;
      double const parts = mirror ? 8 : 1;
      double const parameters = mirror ? held.parameters : table.of(layer_key(cut)).outside.embedding.parameters;
      double const bytes = parameters * sent_gradient_bytes(request.base, model.stack());
      double const expected =
          1e-3 * parts *
          model.network_time(OpKind::all_reduce, bytes / parts, {0, std::abs(members.back() - members.front())})
              .total_us;
      EXPECT_DOUBLE_EQ(ms, expected) << one.group << " stage " << stage;
    }
  }
}

}  // namespace
}  // namespace shardbench::test
