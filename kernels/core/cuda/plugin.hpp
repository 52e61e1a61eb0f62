#pragma once
// What the CUDA back end's shared library exports. Opened with dlopen, so a machine without a driver runs all else.
#include <cstddef>

namespace shardbench {
class Device;
class Communicator;
}  // namespace shardbench

extern "C" {
/// GPU `ordinal`, owned by the caller; nullptr with one line in `error` when it can't be had.
shardbench::Device* shardbench_make_device(int ordinal, char* error, std::size_t error_size);
/// NCCL over the ranks of `bootstrap` (any host communicator), on `device` (made by this library), owned by the caller.
/// A call that stays without progress for `timeout_seconds` is aborted and reported. Collective.
shardbench::Communicator* shardbench_make_nccl_communicator(shardbench::Communicator* bootstrap,
                                                            shardbench::Device* device, double timeout_seconds,
                                                            char* error, std::size_t error_size);
/// "CUDA 13.0, driver 13.0, cuBLASLt ..., NCCL 2.28.9" for the versions column; needs no driver.
char const* shardbench_cuda_versions();
}

namespace shardbench {
using MakeDeviceFunction = decltype(&shardbench_make_device);
using MakeNcclCommunicatorFunction = decltype(&shardbench_make_nccl_communicator);
using CudaVersionsFunction = decltype(&shardbench_cuda_versions);
}  // namespace shardbench
