#pragma once
#include <map>
#include <tuple>
#include <vector>

#include "harness/planner/chunk_costs.hpp"
#include "harness/planner/step_walk.hpp"

namespace shardbench {

/// What a candidate takes by the closed forms: milliseconds, bytes of the fullest rank.
struct PlanCost {
  double step_ms = 0;
  double memory_bytes = 0;
  double compute_ms = 0;    ///< layers, embedding and head of the slowest stage, tensor-parallel waits included
  double bubble_ms = 0;     ///< pipeline fill and drain
  double messages_ms = 0;   ///< pipeline messages on the critical path
  double reduction_ms = 0;  ///< exposed data-parallel communication
  double optimizer_ms = 0;
};

/// Costs candidates by closed forms over layer costs: of the paths through a schedule's work that can be what its step
/// takes, the longest (ScheduleRules::longest_path); seldom above what the schedule takes when it is played, and below
/// it where stages or messages hold each other up. The device count of the request is never looked at: one coster
/// serves all counts. Not for use by several threads at once.
class PlanCoster {
 public:
  PlanCoster(PlanRequest const& request, CostModel const& model);
  PlanCoster(PlanCoster const&) = delete;
  PlanCoster& operator=(PlanCoster const&) = delete;
  /// Computes what candidates of these keys will need, on all cores.
  void prepare(std::vector<LayerKey> const& keys) { table_.prepare(keys); }
  /// The cost, or nullptr when the candidate has no program.
  PlanCost const* cost(Candidate const& candidate);
  /// The step of a candidate that has a cost, its schedule played by itself: dearer and closer (StepWalk).
  double played_ms(Candidate const& candidate);
  /// Forward and backward of one microbatch of the last costed candidate through the whole model.
  double pass_ms() const;
  /// What the pieces of a step cost under a key.
  LayerCosts const& layer_costs(LayerKey const& key) { return table_.of(key); }
  /// Why the last candidate without a program has none.
  std::string const& problem() const { return layer_->problem; }
  /// Layer costs computed so far.
  std::size_t layer_keys() const { return table_.size(); }

 private:
  /// A run of like stages, seen from its last one.
  struct StageGroup {
    PieceCost cost;
    double count = 0;
    double before = 0;                            ///< stages before it
    double forward_before = 0, input_before = 0;  ///< of these, forward and input gradients
    double backward_before = 0;                   ///< whole backward passes
  };
  struct StageTotals {
    std::vector<StageGroup> groups;
    double forward_ms = 0, input_ms = 0, backward_ms = 0;  ///< of all stages
    double slowest_ms = 0;                                 ///< forward and backward of the slowest one
  };

  /// What each stage holds.
  std::vector<ModelPart> const& stages(Candidate const& c);
  void add_up(ChunkCosts const& costs, std::vector<ModelPart> const& stages);
  void add_pipeline(ChunkCosts const& costs);
  double longest_path(ChunkCosts const& costs, StageGroup const& g, double message) const;
  void add_reductions(ChunkCosts const& costs);
  double memory(ChunkCosts const& costs, std::vector<ModelPart> const& stages) const;

  PlanRequest const& request_;
  CostModel const& model_;
  LayerCostTable table_;
  NetworkMemo network_;
  StepWalk walk_;
  StageTotals totals_;
  LayerKey key_;
  LayerCosts const* layer_ = nullptr;
  PlanCost cost_;
  std::map<std::tuple<PieceLayout, std::int32_t, std::int64_t>, std::vector<ModelPart>> stages_;
};

}  // namespace shardbench
