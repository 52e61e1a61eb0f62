#pragma once
#include "harness/config/system_profile.hpp"
#include "harness/program/step_program.hpp"

namespace shardbench {

/// The program as a software stack would run it: gradients reduced after the last backward where the stack does not
/// overlap them, updated weights gathered during forward where it does, and what it keeps for backward beyond our own
/// tensors (attention scores, dropout masks).
StepProgram with_stack(StepProgram program, SoftwareStack const& stack);

}  // namespace shardbench
