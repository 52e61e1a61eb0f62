#pragma once
#include "harness/program/step_program.hpp"
#include "kernels/core/device.hpp"

namespace shardbench {

/// Device memory in bytes that a Runner of this program takes besides its arena: its compute stream's own, and what the
/// kernels keep on it once each has run. Communicators' buffers are not in it.
double bytes_beside_arena(StepProgram const& program, Device& device);

}  // namespace shardbench
