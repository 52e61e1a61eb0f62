#pragma once
#include "kernels/kernel_set.hpp"

/// The vectorised CPU kernels, one source file an op. Each runs on the calling thread.
namespace shardbench::host {

#define SHARDBENCH_DECLARE(name, Args) void name(Args const& args);
SHARDBENCH_EACH_KERNEL(SHARDBENCH_DECLARE)
#undef SHARDBENCH_DECLARE

}  // namespace shardbench::host
