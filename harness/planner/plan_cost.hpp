#pragma once
#include <map>
#include <tuple>
#include <vector>

#include "harness/planner/layer_costs.hpp"

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

/// Costs candidates by closed forms over layer costs. Sources: 1F1B, interleaved: Narayanan et al. 2021; ZB-H1 and
/// DualPipe: the bubble of formulas with B the full backward; message cycle of 1F1B: a microbatch's round trip over k
/// stages with k in flight. Not for use by several threads at once.
class PlanCoster {
 public:
  PlanCoster(PlanRequest const& request, CostModel const& model);
  /// Computes what candidates of the request's space will need, on all cores.
  void prepare();
  /// The cost, or nullptr when the candidate has no program.
  PlanCost const* cost(Candidate const& candidate);
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
  struct StageTotals {
    double sum_ms = 0, slowest_ms = 0, slowest_forward_ms = 0, slowest_backward_ms = 0, slowest_weight_ms = 0;
    double most_parameters = 0, most_expert_parameters = 0;
  };

  std::vector<Stage> const& stages(std::int32_t pp, std::int32_t pieces_per_stage, ScheduleKind kind);
  StageTotals totals(std::vector<Stage> const& stages) const;
  PieceCost stage_cost(Stage const& stage) const;
  void add_pipeline(Candidate const& c, StageTotals const& t, double microbatches);
  void add_reductions(Candidate const& c, StageTotals const& t, double microbatches);
  double reduction_ms(Candidate const& c, StageTotals const& t, double microbatches, double parameters,
                      double weight_bytes, std::int64_t stride, std::int64_t ranks);
  double memory(Candidate const& c, std::vector<Stage> const& stages, double microbatches) const;
  double message_ms(std::int64_t stride, std::int64_t tp, double bytes);
  double collective_ms(OpKind kind, double bytes, std::int64_t stride, std::int64_t ranks, std::int64_t parts);

  PlanRequest const& request_;
  CostModel const& model_;
  LayerCostTable table_;
  LayerKey key_;
  LayerCosts const* layer_ = nullptr;
  PlanCost cost_;
  std::map<std::tuple<std::int32_t, std::int32_t, bool, bool>, std::vector<Stage>> stages_;
  std::map<std::tuple<int, double, std::int64_t, std::int64_t>, double> collectives_;
  std::map<std::tuple<std::int64_t, std::int64_t, double>, double> messages_;
};

}  // namespace shardbench
