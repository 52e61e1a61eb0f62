#pragma once
#include <map>
#include <tuple>
#include <vector>

#include "harness/planner/layer_costs.hpp"
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
/// takes, the longest; seldom above what the schedule takes when it is played, and below it where stages or messages
/// hold each other up. Bubbles: 1F1B, interleaved: Narayanan et al. 2021; ZB-H1, ZB-V: Qi et al. 2024; DualPipe: the
/// DeepSeek-V3 report, without the overlap of its pairs. The device count of the request is never looked at: one coster
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
  struct Stage {
    std::vector<std::int64_t> layers;  ///< by kind
    bool embedding = false, head = false;
    double passed = 1;  ///< share of the microbatches that pass each of its pieces
    bool operator==(Stage const&) const = default;
  };
  /// A run of like stages, seen from its last one.
  struct StageGroup {
    PieceCost cost;
    double count = 0;
    double before = 0;                            ///< stages before it
    double forward_before = 0, input_before = 0;  ///< of these, forward and input gradients
    double backward_before = 0;                   ///< whole backward passes
    double parameters = 0, expert_parameters = 0;
  };
  struct StageTotals {
    std::vector<StageGroup> groups;
    double forward_ms = 0, input_ms = 0, backward_ms = 0;  ///< of all stages
    std::size_t slowest = 0;                               ///< group
    double slowest_ms = 0;                                 ///< forward and backward of its stages
  };

  std::vector<Stage> const& stages(std::int32_t pp, std::int32_t pieces_per_stage, ScheduleKind kind);
  void add_up(std::vector<Stage> const& stages, double microbatches);
  PieceCost stage_cost(Stage const& stage) const;
  void add_pipeline(Candidate const& c, double microbatches);
  double longest_path(Candidate const& c, StageGroup const& g, double microbatches, double message) const;
  void add_reductions(Candidate const& c, double microbatches);
  /// Whole time and number of the collectives over the data-parallel copies of a stage's parameters.
  std::pair<double, double> over_copies(Candidate const& c, OpKind kind, StageGroup const& g, double bytes_each);
  double copies_ms(Candidate const& c, StageGroup const& g);
  double memory(Candidate const& c, std::vector<Stage> const& stages, double microbatches) const;

  PlanRequest const& request_;
  CostModel const& model_;
  LayerCostTable table_;
  NetworkMemo network_;
  StepWalk walk_;
  StageTotals totals_;
  LayerKey key_;
  LayerCosts const* layer_ = nullptr;
  PlanCost cost_;
  std::map<std::tuple<std::int32_t, std::int32_t, bool, bool>, std::vector<Stage>> stages_;
};

}  // namespace shardbench
