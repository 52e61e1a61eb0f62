#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/program/lowered_step.hpp"
#include "harness/simulate/cost_model.hpp"

namespace shardbench {

/// A tensor as one rank of a cut holds it.
struct ExplainedTensor {
  std::string name;
  std::int64_t rows = 0, cols = 0;                ///< local
  std::int64_t global_rows = 0, global_cols = 0;  ///< of all ranks together
  std::string placement;                          ///< along tp (and cp): "shard(features)", "partial(sum)", "replicate"
};

/// One operation of a layer, as one rank runs it for a microbatch.
struct ExplainedOp {
  std::string name, kind, phase;
  bool communicates = false;
  std::string axis;        ///< of communication
  std::int64_t ranks = 0;  ///< of its group
  ExplainedTensor result;
  std::optional<ExplainedTensor> weight;  ///< of a product
  std::string why;                        ///< of communication: what makes it necessary
  std::string caused_by;                  ///< the op that does
  double bytes = 0, flops = 0;            ///< payload, or minimal memory traffic
  std::int64_t calls = 0;                 ///< in a step of this rank, over its layers and microbatches
  double us = 0;                          ///< predicted, 0 without a system
  double step_share = 0;                  ///< of all calls, of the step; 0 without a system
};

/// A layer of a cut, forward and backward, and what each step does beside its layers along the data axes.
struct LayerExplanation {
  std::int64_t layer = 0, stage = 0;
  std::vector<ExplainedOp> forward, backward, once;
};

/// Explains a layer on the rank of the first coordinates that holds it. `model`: nullptr for no times, else with the
/// step that it foretells. Throws InputError for a layer that there is not.
LayerExplanation explain_layer(LoweredStep const& step, std::int64_t layer, CostModel const* model, double step_ms);

}  // namespace shardbench
