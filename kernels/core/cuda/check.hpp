#pragma once
// No fmt here: CUDA sources include this header.
#include <cuda_runtime.h>

#include <string>

#include "kernels/core/error.hpp"

namespace shardbench {

/// Throws Error naming the call and CUDA's own words when `code` is not success.
inline void cuda_check(cudaError_t code, char const* call, char const* file, int line) {
  if (code == cudaSuccess) return;
  throw_error(file, line,
              std::string(call) + " failed (" + cudaGetErrorName(code) + ": " + cudaGetErrorString(code) + ")");
}

}  // namespace shardbench

/// Every CUDA runtime call goes through here.
#define CUDA_CHECK(call) ::shardbench::cuda_check((call), #call, __FILE__, __LINE__)
