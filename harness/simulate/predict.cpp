#include "harness/simulate/predict.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/simulate/stack_program.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr std::size_t listed_tensors = 5;

double optimizer_compute_ms(StepProgram const& p, DurationModel const& model) {
  double ms = 0;
  for (Segment const& s : p.segments)
    if (s.kind == ActionKind::optimizer)
      for (Op const& op : s.ops)
        if (op.stream == StreamId::compute) ms += model.compute_ms(p, op, false);
  return ms;
}

}  // namespace

Prediction predict_step(LoweredStep step, CostModel const& model, SimulationOptions options) {
  static_cast<void>(model.system().peak_tflops_of(step.experiment.precision));
  return play_step(with_stack(std::move(step.stages), model.stack()), model, model, options);
}

Prediction play_step(std::vector<LoweredStage> stages, CostModel const& model, DurationModel const& durations,
                     SimulationOptions options) {
  Prediction out;
  out.stages = std::move(stages);
  out.result = simulate(out.stages, durations, options);
  out.step_ms = out.result.step_ms + model.stack().step_ms;
  double const share = 1 / static_cast<double>(out.stages.size());
  for (StageTimeline const& stage : out.result.stages) out.breakdown.add(stage.breakdown, share);
  // The fixed time of a step is nobody's work.
  if (options.record_spans || options.break_down) out.breakdown.idle_ms += model.stack().step_ms;
  out.breakdown.step_ms = out.step_ms;
  for (LoweredStage const& stage : out.stages)
    out.optimizer_ms = std::max(out.optimizer_ms, optimizer_compute_ms(stage.program(), durations));
  return out;
}

MemoryFit memory_fit(std::vector<LoweredStage> const& stages, SystemProfile const& system, SoftwareStack const& stack) {
  MemoryFit worst;
  for (LoweredStage const& stage : stages) {
    MemoryPlan const& plan = stage.sizes();
    FrameworkBytes const framework =
        framework_bytes(stack, communicators_of(stage.program()), static_cast<double>(plan.activation_peak_bytes));
    double const needed = static_cast<double>(plan.peak_bytes()) + framework.total();
    if (needed <= worst.needed_bytes) continue;
    worst.stage = stage.program().stage;
    worst.parameter_bytes = static_cast<double>(plan.parameter_bytes);
    worst.gradient_bytes = static_cast<double>(plan.gradient_bytes);
    worst.optimizer_bytes = static_cast<double>(plan.optimizer_bytes);
    worst.activation_bytes = static_cast<double>(plan.kept_activation_bytes);
    worst.temporary_bytes =
        static_cast<double>(std::max<std::int64_t>(plan.activation_peak_bytes - plan.kept_activation_bytes, 0));
    worst.buffer_bytes = static_cast<double>(plan.buffer_bytes);
    worst.needed_bytes = needed;
    worst.framework = framework;
    worst.reserved_bytes = framework.total();
    worst.largest = largest_tensors(stage.program(), plan, listed_tensors);
  }
  worst.capacity_bytes = system.device.memory_gb * 1e9;
  return worst;
}

namespace {

struct Change {
  std::string text;
  Experiment changed;
};

/// Changes of one knob, those that cost least first.
std::vector<Change> changes_of(Experiment const& e) {
  std::vector<Change> changes;
  auto const change = [&](std::string text, auto&& edit) {
    changes.push_back({std::move(text), e});
    edit(changes.back().changed);
  };
  Cut const& c = e.cut;
  if (c.tp > 1 && !c.sequence_parallel)
    change("--sequence-parallel", [](Experiment& x) { x.cut.sequence_parallel = true; });
  if (c.dp > 1)
    for (int stage = c.zero_stage + 1; stage <= 3; ++stage)
      change(fmt::format("--zero {}", stage), [&](Experiment& x) { x.cut.zero_stage = stage; });
  if (c.recompute == Recompute::none)
    change("--recompute selective", [](Experiment& x) { x.cut.recompute = Recompute::selective; });
  if (e.micro_batch % 2 == 0)
    change(fmt::format("--micro-batch {}", e.micro_batch / 2), [](Experiment& x) { x.micro_batch /= 2; });
  if (c.recompute != Recompute::full)
    change("--recompute full", [](Experiment& x) { x.cut.recompute = Recompute::full; });
  for (std::int64_t factor = 2; factor <= c.dp && c.dp % factor == 0; factor *= 2) {
    change(fmt::format("--tp {} --dp {}", c.tp * factor, c.dp / factor),
           [&](Experiment& x) { x.cut.tp *= factor, x.cut.dp /= factor; });
    change(fmt::format("--pp {} --dp {}", c.pp * factor, c.dp / factor),
           [&](Experiment& x) { x.cut.pp *= factor, x.cut.dp /= factor; });
  }
  return changes;
}

bool fits(Experiment e, SystemProfile const& system, SoftwareStack const& stack) {
  try {
    resolve(e);
    return memory_fit(with_stack(lower_step(e).stages, stack), system, stack).fits();
  } catch (InputError const&) {
    return false;  // not a legal cut
  }
}

}  // namespace

std::string smallest_change_that_fits(Experiment const& experiment, SystemProfile const& system,
                                      SoftwareStack const& stack) {
  for (Change const& c : changes_of(experiment))
    if (fits(c.changed, system, stack)) return c.text;
  return {};
}

}  // namespace shardbench
