#pragma once
#include <map>
#include <tuple>
#include <vector>

#include "harness/planner/chunk_costs.hpp"
#include "harness/planner/schedule_walk.hpp"

namespace shardbench {

/// The time of a candidate's step from its schedule played with the times of its chunks, then reductions, optimizer and
/// gathers of each stage: what the closed forms can only bound where links are slow, stages unlike or microbatches few.
/// Not for use by several threads at once.
class StepWalk {
 public:
  StepWalk(PlanRequest const& request, CostModel const& model, NetworkMemo& network)
      : request_(request), model_(model), network_(network) {}
  /// Milliseconds, the stack's fixed time of a step left out. `layer`: the costs under the candidate's key.
  double step_ms(Candidate const& candidate, LayerCosts const& layer);

 private:
  /// When the parts of a chunk's gradients are reduced.
  struct Reduced {
    double first = 0, each = 0, parts = 0;
  };

  WalkOrder const& order_of(Candidate const& c, std::int64_t microbatches);
  void fill_times(ChunkCosts const& costs, WalkOrder const& order);
  void fill_messages(ChunkCosts const& costs, WalkOrder const& order);
  void fill_traffic(ChunkCosts const& costs);
  /// [chunk], the reductions beside the last passes; `traffic`: when the stream for them is free, before and after.
  std::vector<Reduced> reduce(std::size_t stage, StageEnd const& passes, double& traffic) const;
  /// When a stage is done after its passes.
  double end_of(ChunkCosts const& costs, std::size_t stage, StageEnd const& passes);

  PlanRequest const& request_;
  CostModel const& model_;
  NetworkMemo& network_;
  ScheduleWalk walk_;
  std::vector<ChunkTimes> times_;  ///< [stage * chunks + chunk], as the others
  std::vector<PieceCost> held_;
  std::vector<CollectiveChain> reductions_, gathers_;
  std::size_t chunks_ = 1;
  std::map<std::tuple<ScheduleKind, std::int32_t, std::int32_t, std::int64_t>, WalkOrder> orders_;
  std::size_t order_entries_ = 0;
};

}  // namespace shardbench
