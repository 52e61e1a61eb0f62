#pragma once
#include <optional>

#include "harness/exec/operands.hpp"
#include "harness/exec/routed_counts.hpp"
#include "kernels/kernel_set.hpp"

namespace shardbench {

/// Where in the run an op is.
struct StepPlace {
  std::int64_t step = 0;     ///< optimizer steps, from 1
  std::uint64_t random = 0;  ///< seed of this step's dropout
};

/// Starts one compute op on `stream`, whatever its kind but fetch_counts, which the runner carries out. `adds`: it adds
/// to its output. `counts` are the rows of the routing for ops that depend on them.
void launch_compute(KernelSet const& kernels, Stream& stream, Op const& op, Operands const& operands, bool adds,
                    OptimizerSettings const& optimizer, StepPlace place,
                    std::optional<RoutedCounts> const& counts = {});

}  // namespace shardbench
