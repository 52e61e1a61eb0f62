#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/core/cuda/access.hpp"
#include "kernels/core/cuda/check.hpp"
#include "kernels/core/cuda/stream.hpp"

namespace shardbench {

constexpr unsigned warp_threads = 32;
constexpr unsigned largest_block = 256;

/// The one way kernels start: `<<<>>>` is not C++, and the emulated device compiles the same sources with a C++
/// compiler.
template <class... Parameters, class... Args>
void launch(void (*kernel)(Parameters...), dim3 grid, unsigned block, CudaStream& stream, Args const&... args) {
  EXPECT(block % warp_threads == 0 && block > 0 && block <= 1024);
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(block);
  config.stream = stream.get();
  CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(args)...));
}

/// Threads for a block that works along a row of `count` items: whole warps, no more than useful.
inline unsigned block_for(std::int64_t count) {
  auto const warps = (count + warp_threads - 1) / warp_threads;
  return static_cast<unsigned>(std::clamp<std::int64_t>(warps, 1, largest_block / warp_threads)) * warp_threads;
}

/// Blocks for `count` independent items in a grid-stride loop; enough to fill any GPU of today twice over.
inline unsigned grid_for(std::int64_t count, unsigned block) {
  constexpr std::int64_t most = 4096;
  return static_cast<unsigned>(std::clamp<std::int64_t>((count + block - 1) / block, 1, most));
}

/// One block a row. Throws when a grid can't have as many.
inline unsigned grid_of_rows(std::int64_t rows) {
  VALIDATE(rows <= std::numeric_limits<std::int32_t>::max(), "more rows than a CUDA grid has blocks");
  return static_cast<unsigned>(rows);
}

/// Calls `body(T{})` with the storage type of `dtype`.
template <class Body>
void with_float_type(Dtype dtype, Body const& body) {
  if (dtype == Dtype::f32) {
    body(float{});
  } else if (dtype == Dtype::bf16) {
    body(Bf16{});
  } else {
    throw Error("CUDA kernels take fp32 or bf16 here, not " + std::string(to_string(dtype)));
  }
}

/// A tensor as its storage type.
template <class T>
SB_HOST_DEVICE T const* as(void const* tensor) {
  return static_cast<T const*>(tensor);
}
template <class T>
SB_HOST_DEVICE T* as(void* tensor) {
  return static_cast<T*>(tensor);
}

}  // namespace shardbench
