#pragma once
#include <vector>

#include "harness/planner/layer_costs.hpp"
#include "harness/planner/network_memo.hpp"
#include "harness/schedule/schedule_rules.hpp"

namespace shardbench {

/// What a chunk or a stage holds of the model.
struct ModelPart {
  std::vector<std::int64_t> layers;  ///< by kind
  std::size_t last_kind = 0;         ///< of its last layer
  bool embedding = false, head = false;
  bool operator==(ModelPart const&) const = default;
};

/// What each chunk of a schedule's stages holds: [stage * chunks + chunk].
std::vector<ModelPart> model_parts(Experiment const& base, PipelineSchedule const& shape);

/// The costs of a part's layers, embedding and head together.
PieceCost sum_of(LayerCosts const& layer, ModelPart const& part);

/// A chain of equal collectives, one after the other.
struct CollectiveChain {
  double ms = 0;
  double parts = 0;
};

/// What the parts of a candidate's model cost, and the collectives over their parameters: the one place from which
/// closed forms (PlanCoster) and played schedules (StepWalk) take both. It lives as long as what it is made of.
class ChunkCosts {
 public:
  ChunkCosts(PlanRequest const& request, CostModel const& model, NetworkMemo& network, Candidate const& candidate,
             LayerCosts const& layer);

  Candidate const& cut() const { return cut_; }
  ScheduleRules const& rules() const { return rules_; }
  LayerCosts const& layer() const { return layer_; }
  SoftwareStack const& stack() const { return stack_; }
  double microbatches() const { return microbatches_; }

  PieceCost of(ModelPart const& part) const;
  /// A message of a stage border.
  double message_ms(std::int64_t from_stage, std::int64_t to_stage) const;
  /// Sums of gradients over data-parallel copies, or over shards and cut.
  CollectiveChain reductions(PieceCost const& held) const;
  /// Gathers of weights; nothing where they are whole.
  CollectiveChain gathers(PieceCost const& held) const;
  /// Sums of what two stages hold copies of: a tied table, or all of a mirrored stage. `held`: by the whole stage.
  double copies_ms(std::int64_t stage, PieceCost const& held) const;
  double update_ms(PieceCost const& held) const;
  /// Weights, gradients and optimizer states.
  double state_bytes(PieceCost const& held) const;
  /// Weights are gathered beside the first forward passes of the next step, not at the end of this one.
  bool gathers_first() const;

 private:
  CollectiveChain over_copies(OpKind kind, PieceCost const& held, double bytes_each) const;

  Experiment const& base_;
  SoftwareStack const& stack_;
  NetworkMemo& network_;
  Candidate const& cut_;
  LayerCosts const& layer_;
  ScheduleRules const& rules_;
  std::int64_t stage_ranks_;          ///< from a rank to its like on the next stage
  std::int64_t copies_, expert_cut_;  ///< data-parallel copies of dense parameters; ranks that experts are cut over
  double microbatches_;
};

}  // namespace shardbench
