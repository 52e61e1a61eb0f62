#pragma once
// What the planner's tests plan: models by name, and the system they are planned on.
#include <string>

#include "harness/config/experiment.hpp"
#include "harness/simulate/cost_model.hpp"

namespace shardbench::test {

/// A model by name, cut to `layers`, in bf16; the shape is known, the cut is still open.
inline Experiment base_of(std::string const& model, std::int64_t layers, std::int64_t seq, std::int64_t batch = 0) {
  Experiment e;
  e.model_name = model;
  e.layers = layers;
  e.seq = seq;
  if (batch > 0) e.global_batch = batch;
  e.precision = Dtype::bf16;
  Experiment whole = e;
  resolve(whole);
  e.model = whole.model;
  return e;
}

inline CostModel h100() { return {load_system("h100-sxm"), load_stack("ours")}; }

}  // namespace shardbench::test
