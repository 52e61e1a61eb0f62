#pragma once
// Shadows CUDA's header: the kernel language for a C++ compiler, and the runtime calls that this project makes.
// Only what is used exists here, so that a new use fails to compile instead of doing nothing.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <utility>

#define __global__
#define __device__
#define __host__
// One block at a time runs on a stream's thread, so thread-local statics are what the block's threads share.
#define __shared__ static thread_local

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

// Few bytes, read everywhere: at a fixed place of each thread, also where the library is opened late.
#define EMULATION_TLS __attribute__((tls_model("initial-exec"))) thread_local
extern constinit EMULATION_TLS uint3 threadIdx;
extern constinit EMULATION_TLS uint3 blockIdx;
extern constinit EMULATION_TLS dim3 blockDim;
extern constinit EMULATION_TLS dim3 gridDim;

namespace emulation {
/// Exchanges up to 8 bytes with another lane of the warp.
std::uint64_t shuffle_xor(std::uint64_t bits, unsigned lane_mask);
int any_in_block(int predicate);
}  // namespace emulation

void __syncthreads();
inline int __syncthreads_or(int predicate) { return emulation::any_in_block(predicate); }

template <class T>
T __shfl_xor_sync(unsigned, T value, int lane_mask) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = emulation::shuffle_xor(bits, static_cast<unsigned>(lane_mask));
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }

// ---- runtime ----
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchFailure = 719,
};
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone = 0, cudaStreamCaptureStatusActive = 1 };
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };

using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;

inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDefault = 0;
inline constexpr unsigned cudaEventDisableTiming = 2;

struct cudaDeviceProp {
  char name[256];
  struct {
    char bytes[16];
  } uuid;
  int major, minor, multiProcessorCount;
  std::size_t totalGlobalMem;
};

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

char const* cudaGetErrorName(cudaError_t code);
char const* cudaGetErrorString(cudaError_t code);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetPCIBusId(char* bus, int size, int device);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaMalloc(void** pointer, std::size_t bytes);
cudaError_t cudaFree(void* pointer);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaMemcpyAsync(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* pointer, int value, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t stop);

namespace emulation {
/// Queues a kernel: `thread` runs once for each thread of the grid.
cudaError_t launch_kernel(cudaLaunchConfig_t const& config, std::function<void()> thread);
}  // namespace emulation

template <class... Parameters, class... Args>
cudaError_t cudaLaunchKernelEx(cudaLaunchConfig_t const* config, void (*kernel)(Parameters...), Args&&... args) {
  std::tuple<Parameters...> parameters(std::forward<Args>(args)...);
  return emulation::launch_kernel(*config, [kernel, parameters] { std::apply(kernel, parameters); });
}
