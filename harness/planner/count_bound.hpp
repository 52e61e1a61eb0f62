#pragma once
#include <map>
#include <utility>

#include "harness/planner/plan_cost.hpp"

namespace shardbench {

/// A lower bound of the step over device counts: what the layers of the fullest stage compute, at the best micro-batch
/// and switches, without bubbles, messages and reductions. Told from layer costs alone, so that most of the counts that
/// are too few need no plan. Models of one kind of layer only: of others 0, nothing, is known.
class CountBound {
 public:
  /// `widest`: the axes of the most devices.
  CountBound(PlanRequest const& widest, PlanCoster& coster);
  /// No step on so many devices takes less; infinity where no cut is legal.
  double step_ms(std::int64_t devices) const;

 private:
  /// Forward and backward of one sample on the ranks that share it.
  struct Sample {
    double layer_ms = 0, outside_ms = 0;
  };
  double stage_ms(Sample const& sample, std::int64_t pp) const;

  PlanRequest const& widest_;
  bool paired_ = false;  ///< DualPipe is among the schedules: a rank holds halves of two stages
  std::map<std::pair<std::int32_t, std::int32_t>, Sample> samples_;  ///< by tp and cp
};

}  // namespace shardbench
