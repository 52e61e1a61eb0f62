#pragma once
#include "kernels/kernel_set.hpp"

/// The reference kernels, one source file an op: obvious loops in double. Each runs on the calling thread.
namespace shardbench::reference {

#define SHARDBENCH_DECLARE(name, Args) void name(Args const& args);
SHARDBENCH_EACH_KERNEL(SHARDBENCH_DECLARE)
#undef SHARDBENCH_DECLARE

}  // namespace shardbench::reference
