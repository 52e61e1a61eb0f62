#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "harness/config/experiment.hpp"
#include "harness/program/analysis/memory_plan.hpp"

namespace shardbench {

/// One rank's program with what follows from it, each made once, at its first use. Copies share all of it; not for
/// several threads at once.
class LoweredStage {
 public:
  LoweredStage(StepProgram program);
  StepProgram const& program() const { return parts_->program; }
  Replay const& replay() const;
  /// The memory plan, of which at least the named part is there (see MemoryPlanner).
  MemoryPlan const& instances() const { return planner().instances(); }
  MemoryPlan const& sizes() const { return planner().sizes(); }
  MemoryPlan const& memory() const { return planner().whole(); }
  /// The program, to be changed: this stage's own where nobody shares it, else a copy.
  StepProgram take() &&;

 private:
  struct Parts {
    StepProgram program;
    std::optional<Replay> replay;
    std::optional<MemoryPlanner> planner;
  };
  MemoryPlanner& planner() const;

  std::shared_ptr<Parts> parts_;
};

/// An experiment and the programs of its pipeline stages, one rank each: lowered once and handed on.
struct LoweredStep {
  Experiment experiment;
  std::vector<LoweredStage> stages;
  /// What a rank does: a stage's program where it speaks for it, else one lowered for the rank.
  LoweredStage of_rank(std::int64_t rank) const;
};

/// Lowers a resolved experiment. Throws IllegalConfig as lower() does.
LoweredStep lower_step(Experiment const& experiment);

/// The same step without any cut, on one rank.
LoweredStage lower_unsharded(Experiment const& experiment);

}  // namespace shardbench
