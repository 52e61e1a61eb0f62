#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/planner/plan_space.hpp"
#include "harness/simulate/cost_model.hpp"

namespace shardbench {

/// What one microbatch costs on one piece of the model on one rank: milliseconds, bytes, parameters held.
struct PieceCost {
  double forward_ms = 0;
  double backward_ms = 0;         ///< input and weight gradients, recomputation included
  double weight_backward_ms = 0;  ///< the part of backward_ms that makes weight gradients
  double adding_ms = 0;         ///< what passes after a step's first take more, as their gradients add to what is there
  double activation_bytes = 0;  ///< kept from forward to backward
  double parameters = 0;        ///< replicated over data-parallel ranks
  double expert_parameters = 0;            ///< replicated over the expert data-parallel ranks only
  double buckets = 0, expert_buckets = 0;  ///< that their gradients are reduced in
  /// Adds another piece so many times.
  void add(PieceCost const& piece, double times);
};

/// What a layer of one kind costs, from programs of one and two layers played by the event simulation.
struct KindCosts {
  std::string problem;     ///< why there is no program; empty when there is one
  PieceCost layer, alone;  ///< one among others (two less one); a single one
  /// Temporaries beside what is kept.
  double working_bytes() const { return alone.activation_bytes - layer.activation_bytes; }
};

/// What surrounds the layers costs, from the program of a whole model of one layer less that layer.
struct OutsideCosts {
  std::string problem;  ///< why there is no program; empty when there is one
  PieceCost embedding, head;
  double working_bytes = 0;  ///< temporaries beside what the layer keeps, where embedding and head are
  double optimizer_ms_per_parameter = 0;
  double parameter_bytes = 0, gradient_bytes = 0, optimizer_bytes = 0;  ///< each of one parameter, unsharded
};

/// Costs of the pieces of a step under one LayerKey.
struct LayerCosts {
  std::string problem;           ///< why this key has no program; empty when it has one
  std::vector<PieceCost> kinds;  ///< [0] the dense layer, [1] the expert layer where a model has both
  OutsideCosts outside;
  double working_bytes = 0;       ///< temporaries beside what is kept, of one layer
  double head_working_bytes = 0;  ///< more of them where the head is (logits)
  double message_bytes = 0;       ///< of a stage border
};

/// Computes and remembers layer costs. Keys share what is the same for them: a dense layer knows no cut of experts, and
/// what surrounds the layers no recomputation of theirs. Not for use by several threads at once.
class LayerCostTable {
 public:
  LayerCostTable(PlanRequest const& request, CostModel const& model) : request_(request), model_(model) {}
  /// Computes what the costs of these keys are made of on all cores, to have it at hand.
  void prepare(std::vector<LayerKey> const& keys);
  LayerCosts const& of(LayerKey const& key);
  std::size_t size() const { return costs_.size(); }

 private:
  using KindKey = std::pair<LayerKey, bool>;  ///< and whether it is the layer with experts

  KindCosts const& kind(LayerKey const& key, bool experts);
  OutsideCosts const& outside(LayerKey const& key);
  LayerCosts assemble(LayerKey const& key);

  PlanRequest const& request_;
  CostModel const& model_;
  std::map<KindKey, KindCosts> kinds_;
  std::map<LayerKey, OutsideCosts> outsides_;
  std::map<LayerKey, LayerCosts> costs_;
};

/// Layers of each kind among layers [first, first + count): [dense or only kind, expert].
std::vector<std::int64_t> layers_by_kind(ModelConfig const& model, std::int64_t first, std::int64_t count);

}  // namespace shardbench
