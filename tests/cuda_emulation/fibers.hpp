#pragma once
#include <functional>

#include "cuda_runtime.h"

namespace emulation {

/// Runs every block of a grid on the calling thread, its threads as fibers that switch at barriers and shuffles.
/// Aborts the process with one line when threads of a block wait at different barriers: a real GPU would hang.
/// `order_seed` turns the order in which warps run, so that a missing barrier shows.
void run_grid(dim3 grid, dim3 block, std::function<void()> const& thread, unsigned order_seed);

}  // namespace emulation
