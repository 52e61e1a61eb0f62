#pragma once
#include <cuda_runtime.h>

namespace shardbench {

struct Sum {
  static __device__ float identity() { return 0.0f; }
  static __device__ float combine(float a, float b) { return a + b; }
};

struct Max {
  static __device__ float identity() { return -INFINITY; }
  static __device__ float combine(float a, float b) { return fmaxf(a, b); }
};

/// Every lane of a full warp gets the reduction of all lanes' values.
template <class Op>
__device__ inline float warp_reduce(float value) {
  for (int mask = 16; mask > 0; mask >>= 1) value = Op::combine(value, __shfl_xor_sync(0xffffffffu, value, mask));
  return value;
}

/// Every thread of the block gets the reduction; all threads must call. Fixed order, so results repeat bit by bit.
template <class Op>
__device__ inline float block_reduce(float value) {
  __shared__ float parts[32];
  value = warp_reduce<Op>(value);
  unsigned const warps = blockDim.x / 32, lane = threadIdx.x % 32;
  if (warps == 1) return value;
  if (lane == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = warp_reduce<Op>(lane < warps ? parts[lane] : Op::identity());
  __syncthreads();  // parts may be written again by the next reduction
  return value;
}

__device__ inline float block_sum(float value) { return block_reduce<Sum>(value); }
__device__ inline float block_max(float value) { return block_reduce<Max>(value); }

}  // namespace shardbench
