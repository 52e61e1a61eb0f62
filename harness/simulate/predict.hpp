#pragma once
#include <string>
#include <vector>

#include "harness/config/experiment.hpp"
#include "harness/simulate/cost_model.hpp"
#include "harness/simulate/stack_program.hpp"

namespace shardbench {

/// A step of an experiment as foretold for a system.
struct Prediction {
  std::vector<LoweredStage> stages;  ///< of one rank each, as the stack runs them
  SimulationResult result;
  double step_ms = 0;       ///< of the slowest stage, with the stack's fixed time of a step
  Breakdown breakdown;      ///< mean over stages; its step is step_ms. Zero without record_spans and break_down
  double optimizer_ms = 0;  ///< compute of the optimizer on the slowest stage
};

/// Plays a step as the model's stack runs it. Throws InputError when the system lacks the precision.
Prediction predict_step(LoweredStep step, CostModel const& model, SimulationOptions options = {});
/// Lowers a resolved experiment for that. Throws IllegalConfig as lower() does.
inline Prediction predict_step(Experiment const& experiment, CostModel const& model, SimulationOptions options = {}) {
  return predict_step(lower_step(experiment), model, options);
}

/// Plays one rank a stage with the times of `durations`; the model gives the rest.
Prediction play_step(std::vector<LoweredStage> stages, CostModel const& model, DurationModel const& durations,
                     SimulationOptions options = {});

/// Bytes a rank of the fullest stage needs on a system, and what is there.
struct MemoryFit {
  std::int64_t stage = 0;
  double parameter_bytes = 0, gradient_bytes = 0, optimizer_bytes = 0, buffer_bytes = 0;
  double activation_bytes = 0;  ///< kept for backward
  double temporary_bytes = 0;   ///< alive within an action only, at the peak
  double reserved_bytes = 0;    ///< what the stack takes beside: all of `framework`
  FrameworkBytes framework;
  double needed_bytes = 0;  ///< all of them
  double capacity_bytes = 0;
  std::vector<std::pair<std::string, std::int64_t>> largest;  ///< the biggest tensors at the peak
  bool fits() const { return needed_bytes <= capacity_bytes; }
};

MemoryFit memory_fit(std::vector<LoweredStage> const& stages, SystemProfile const& system, SoftwareStack const& stack);

/// The first change to one knob, from the cheapest to the dearest, that makes the experiment fit: "recompute
/// selective", "zero 1", ... Empty when none does.
std::string smallest_change_that_fits(Experiment const& experiment, SystemProfile const& system,
                                      SoftwareStack const& stack);

}  // namespace shardbench
