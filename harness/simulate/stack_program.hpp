#pragma once
#include "harness/config/system_profile.hpp"
#include "harness/program/lowered_step.hpp"

namespace shardbench {

/// The program as a software stack would run it: gradients reduced after the last backward where the stack does not
/// overlap them, updated weights gathered during forward where it does, and what it keeps for backward beyond our own
/// tensors (attention scores, dropout masks).
StepProgram with_stack(StepProgram program, SoftwareStack const& stack);

/// The same of each stage; those that a stack leaves as they are stay shared.
std::vector<LoweredStage> with_stack(std::vector<LoweredStage> stages, SoftwareStack const& stack);

}  // namespace shardbench
