#pragma once
#include <optional>

#include "harness/exec/operands.hpp"
#include "harness/exec/routed_counts.hpp"
#include "kernels/kernel_set.hpp"

namespace shardbench {

/// What the optimizer ops need beyond the program.
struct OptimizerSettings {
  float learning_rate = 1e-3f, beta1 = 0.9f, beta2 = 0.95f, eps = 1e-8f, weight_decay = 0.1f;
};

/// Where in the run an op is.
struct StepPlace {
  std::int64_t step = 0;     ///< optimizer steps, from 1
  std::uint64_t random = 0;  ///< seed of this step's dropout
};

/// Starts one compute op on `stream`. `adds`: it adds to its output. `counts` are the rows of the routing for ops that
/// depend on them.
/// Throws IllegalConfig for an op that no kernel of the set runs.
void launch_compute(KernelSet const& kernels, Stream& stream, Op const& op, Operands const& operands, bool adds,
                    OptimizerSettings const& optimizer, StepPlace place,
                    std::optional<RoutedCounts> const& counts = {});

/// Why the program cannot be executed, in one line; empty when every op of it has a kernel.
std::string not_executable(StepProgram const& program);

}  // namespace shardbench
