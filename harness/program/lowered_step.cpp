#include "harness/program/lowered_step.hpp"

#include <algorithm>

#include "harness/program/passes/lower.hpp"

namespace shardbench {

LoweredStage::LoweredStage(StepProgram program) : parts_(std::make_shared<Parts>()) {
  parts_->program = std::move(program);
}

Replay const& LoweredStage::replay() const {
  if (!parts_->replay) parts_->replay.emplace(program());
  return *parts_->replay;
}

MemoryPlanner& LoweredStage::planner() const {
  if (!parts_->planner) parts_->planner.emplace(program(), replay());
  return *parts_->planner;
}

StepProgram LoweredStage::take() && {
  if (parts_.use_count() > 1) return program();
  return std::move(parts_->program);
}

LoweredStage LoweredStep::of_rank(std::int64_t rank) const {
  auto const speaks = std::ranges::find_if(stages, [&](LoweredStage const& s) { return s.program().rank == rank; });
  return speaks != stages.end() ? *speaks : lower(experiment, rank);
}

LoweredStage lower_unsharded(Experiment const& experiment) { return lower(unsharded(experiment), 0); }

LoweredStep lower_step(Experiment const& experiment) {
  LoweredStep step{experiment, {}};
  for (StepProgram& program : lower_stages(experiment)) step.stages.emplace_back(std::move(program));
  return step;
}

}  // namespace shardbench
