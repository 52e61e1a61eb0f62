// The kernel language as the emulated GPU speaks it.
#include <cstdint>
#include <numeric>

#include "kernels/core/cuda/launch.hpp"
#include "kernels/core/cuda/reduce.hpp"
#include "kernels/core/cuda/vec.hpp"
#include "tests/kernels_cuda/gpu.hpp"

namespace shardbench::test {
namespace {

__global__ void index_kernel(float* out) {
  unsigned const block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  out[block * blockDim.x + threadIdx.x] = static_cast<float>(block * 1000 + threadIdx.x);
}

/// Turns a block's values around through shared memory, which goes wrong without the barrier.
__global__ void reverse_kernel(float* values) {
  __shared__ float held[256];
  float* const mine = values + blockIdx.x * blockDim.x;
  held[threadIdx.x] = mine[threadIdx.x];
  __syncthreads();
  mine[threadIdx.x] = held[blockDim.x - 1 - threadIdx.x];
}

__global__ void sum_kernel(float const* values, float* sums) {
  float const sum = block_sum(values[blockIdx.x * blockDim.x + threadIdx.x]);
  float const highest = block_max(values[blockIdx.x * blockDim.x + threadIdx.x]);
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum + highest;
}

__global__ void any_kernel(int const* flags, float* out) {
  int const first = __syncthreads_or(flags[threadIdx.x] == 1);
  int const second = __syncthreads_or(flags[threadIdx.x] == 2);
  out[threadIdx.x] = static_cast<float>(first * 10 + second);
}

__global__ void divergent_barrier_kernel(float* out) {
  if (threadIdx.x < 32) __syncthreads();
  out[threadIdx.x] = 0;
}

__global__ void divergent_shuffle_kernel(float* out) {
  if (threadIdx.x % 2 == 0) out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 2);
}

class KernelLanguage : public GpuTest {
 protected:
  CudaStream& queue() { return cuda_stream(*stream_); }
};

std::vector<float> counting(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

TEST_F(KernelLanguage, EveryThreadOfEveryBlockRunsOnce) {
  float* const out = upload(std::vector<float>(2 * 3 * 2 * 64, -1.0f));
  launch(index_kernel, dim3(2, 3, 2), 64, queue(), out);
  std::vector<float> const result = download(out, 2 * 3 * 2 * 64);
  for (std::size_t i = 0; i < result.size(); ++i) EXPECT_EQ(result[i], static_cast<float>(i / 64 * 1000 + i % 64));
  device_.deallocate(out);
}

TEST_F(KernelLanguage, BarriersHoldInAnyOrderOfWarps) {
  for (unsigned const seed : {0u, 1u, 5u}) {
    emulation::set_delay_seed(seed);
    float* const values = upload(counting(512));
    launch(reverse_kernel, dim3(2), 256, queue(), values);
    std::vector<float> const result = download(values, 512);
    for (std::size_t i = 0; i < 512; ++i) EXPECT_EQ(result[i], static_cast<float>(i / 256 * 256 + 255 - i % 256));
    device_.deallocate(values);
  }
}

TEST_F(KernelLanguage, ReductionsReachEveryThread) {
  for (unsigned const block : {32u, 96u, 256u}) {
    float* const values = upload(counting(2 * block));
    float* const sums = upload(std::vector<float>(2 * block));
    launch(sum_kernel, dim3(2), block, queue(), values, sums);
    std::vector<float> const result = download(sums, 2 * block);
    for (unsigned i = 0; i < 2 * block; ++i) {
      unsigned const first = i / block * block, last = first + block - 1;
      EXPECT_EQ(result[i], static_cast<float>((first + last) * block / 2 + last)) << "block of " << block;
    }
    device_.deallocate(values);
    device_.deallocate(sums);
  }
}

TEST_F(KernelLanguage, PredicatesOfABlockAreJoined) {
  emulation::accept_host_memory(true);
  std::vector<int> flags(64, 0);
  flags[50] = 1;
  std::vector<float> out(64, -1.0f);
  launch(any_kernel, dim3(1), 64, queue(), flags.data(), out.data());
  stream_->synchronize();
  EXPECT_EQ(out, std::vector<float>(64, 10.0f));
}

TEST_F(KernelLanguage, IllegalLaunchesAreRefused) {
  EXPECT_THROW(launch(reverse_kernel, dim3(0), 32, queue(), nullptr), Error);
  EXPECT_THROW(launch(reverse_kernel, dim3(1, 65536), 32, queue(), nullptr), Error);
}

using KernelLanguageDeathTest = KernelLanguage;

TEST_F(KernelLanguageDeathTest, ThreadsThatMissABarrierEndTheProcess) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        float* const out = upload(std::vector<float>(64));
        launch(divergent_barrier_kernel, dim3(1), 64, queue(), out);
        stream_->synchronize();
      },
      "a __syncthreads that not all threads of the block reach");
  EXPECT_DEATH(
      {
        float* const out = upload(std::vector<float>(64));
        launch(divergent_shuffle_kernel, dim3(1), 32, queue(), out);
        stream_->synchronize();
      },
      "a shuffle that not all lanes of the warp reach");
}

}  // namespace
}  // namespace shardbench::test
