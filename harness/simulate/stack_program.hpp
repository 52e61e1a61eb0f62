#pragma once
#include "harness/config/system_profile.hpp"
#include "harness/program/lowered_step.hpp"

namespace shardbench {

/// The program as a software stack would run it: gradients reduced after the last backward where the stack does not
/// overlap them, updated weights gathered during forward where it does, and what it keeps for backward beyond our own
/// tensors (attention scores, dropout masks, fp32 logits), in its own precisions.
StepProgram with_stack(StepProgram program, SoftwareStack const& stack);

/// Memory that a stack takes beside the tensors of a step, by what takes it.
struct FrameworkBytes {
  double context = 0, workspace = 0, communicators = 0, fragmentation = 0;
  double other = 0;  ///< where the stack does not tell them apart
  double total() const { return context + workspace + communicators + fragmentation + other; }
};
/// `activation_bytes`: activations and temporaries at their peak.
FrameworkBytes framework_bytes(SoftwareStack const& stack, std::int64_t communicators, double activation_bytes);
/// Communicators that a rank has: the groups of its collectives, and one for the messages between stages.
std::int64_t communicators_of(StepProgram const& program);

/// The same of each stage; those that a stack leaves as they are stay shared.
std::vector<LoweredStage> with_stack(std::vector<LoweredStage> stages, SoftwareStack const& stack);

}  // namespace shardbench
