#pragma once
#include "kernels/kernel_set.hpp"

namespace shardbench {

/// Kernels for NVIDIA GPUs. Streams must come from a CudaDevice.
KernelSet const& cuda_kernels();

/// The same with cuDNN's fused attention.
KernelSet const& cuda_kernels_with_cudnn();

namespace cuda {

#define SHARDBENCH_DECLARE(name, Args) void name(Stream& stream, Args const& args);
SHARDBENCH_EACH_KERNEL(SHARDBENCH_DECLARE)
#undef SHARDBENCH_DECLARE

}  // namespace cuda
}  // namespace shardbench
