#pragma once
// Inside the emulated GPU: what the stand-ins for cuBLASLt and NCCL need of the stand-in for the runtime.
#include <functional>
#include <string>
#include <vector>

#include "cuda_runtime.h"
#include "emulation.hpp"

namespace emulation {

struct Range {
  void const* data = nullptr;
  std::size_t bytes = 0;
  bool write = false;
};

/// Queues `work` on a stream and checks that what it touches is ordered after everything it must be.
/// cudaErrorInvalidResourceHandle for a stream that does not exist (the default stream is not offered).
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work, std::vector<Range> const& touched,
                    char const* what);

/// The number that a variable of the environment holds, 0 without one.
int from_environment(char const* name);

/// True when this call is the one that inject_fault chose.
bool fails_now(Fault fault);

/// True when [data, data + bytes) lies in one allocation.
bool in_device_memory(void const* data, std::size_t bytes);

}  // namespace emulation
