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
/// Names of the GPUs that this process sees, no two alike on any machine, by number and separated by commas, in `text`;
/// false with one line in it when they can't be told.
bool shardbench_visible_gpus(char* text, std::size_t size);
/// Attention of a device that this library made: "query-blocks" or "cudnn"; false with one line of why not in `error`.
bool shardbench_choose_attention(shardbench::Device* device, char const* kernel, char* error, std::size_t error_size);
/// Active NVLinks of a device that this library made; -1 where the driver does not tell.
int shardbench_nvlinks(shardbench::Device* device);
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
using ChooseAttentionFunction = decltype(&shardbench_choose_attention);
using NvlinksFunction = decltype(&shardbench_nvlinks);
using VisibleGpusFunction = decltype(&shardbench_visible_gpus);
using MakeNcclCommunicatorFunction = decltype(&shardbench_make_nccl_communicator);
using CudaVersionsFunction = decltype(&shardbench_cuda_versions);
}  // namespace shardbench
