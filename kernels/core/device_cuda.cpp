#include <cuda_profiler_api.h>

#include <algorithm>
#include <array>

#include "kernels/attention/attention_cudnn_cuda.hpp"
#include "kernels/core/cuda/nvml.hpp"
#include "kernels/core/cuda/stream.hpp"
#include "kernels/kernel_set_cuda.hpp"

namespace shardbench {
namespace {

// cuBLASLt's advice for Hopper; smaller devices get a share of their memory.
constexpr std::size_t largest_workspace = std::size_t{32} << 20;
constexpr std::size_t largest_scratch = std::size_t{64} << 20;
constexpr std::size_t memory_share = 1024;

std::size_t share_of(std::size_t total, std::size_t largest) {
  std::size_t const aligned = total / memory_share / 256 * 256;
  return std::clamp(aligned, std::size_t{256} << 10, largest);
}

/// What a compute stream of a GPU takes for itself.
struct StreamMemory {
  std::size_t workspace = 0, scratch = 0;
};
StreamMemory stream_memory(std::size_t total) {
  return {share_of(total, largest_workspace), share_of(total, largest_scratch)};
}

int checked_ordinal(int ordinal) {
  int count = 0;
  CUDA_CHECK(cudaGetDeviceCount(&count));
  VALIDATE(ordinal >= 0 && ordinal < count,
           "GPU " + std::to_string(ordinal) + " asked for, " + std::to_string(count) + " present");
  CUDA_CHECK(cudaSetDevice(ordinal));
  return ordinal;
}

}  // namespace

CudaDevice::CudaDevice(int ordinal) : ordinal_(checked_ordinal(ordinal)), context_(std::make_shared<CudaContext>()) {
  context_->ordinal = ordinal_;
}

DeviceInfo CudaDevice::info() const {
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDeviceProperties(&properties, ordinal_));
  std::size_t free = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  StreamMemory const own = stream_memory(total);
  return {properties.name, std::string(cuda_backend_name()), static_cast<double>(total), static_cast<double>(free),
          static_cast<double>(own.workspace + own.scratch)};
}

KernelSet const& CudaDevice::kernels() const { return fused_attention_ ? cuda_kernels_with_cudnn() : cuda_kernels(); }

void CudaDevice::choose_attention(std::string const& kernel) {
  bool const fused = kernel == "cudnn";
  VALIDATE(fused || kernel == "query-blocks", "no such attention: " + kernel);
  if (std::string const problem = fused ? cuda::cudnn_problem() : ""; !problem.empty())
    throw IllegalConfig("attention: cudnn: " + problem);
  fused_attention_ = fused;
}

std::unique_ptr<Stream> CudaDevice::make_stream(StreamKind kind) {
  CUDA_CHECK(cudaSetDevice(ordinal_));
  std::size_t free = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  StreamMemory const own = stream_memory(total);
  return std::make_unique<CudaStream>(context_, kind, own.workspace, own.scratch);
}

std::unique_ptr<Event> CudaDevice::make_event(bool timed) { return std::make_unique<CudaEvent>(context_, timed); }

void* CudaDevice::allocate(std::size_t bytes) {
  CUDA_CHECK(cudaSetDevice(ordinal_));
  void* memory = nullptr;
  cudaError_t const code = cudaMalloc(&memory, std::max(bytes, std::size_t{1}));
  if (code == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // not sticky: the next configuration may fit
    std::size_t free = 0, total = 0;
    CUDA_CHECK(cudaMemGetInfo(&free, &total));
    throw OutOfMemory("GPU memory: " + std::to_string(bytes) + " bytes asked for, " + std::to_string(free) + " of " +
                          std::to_string(total) + " free",
                      static_cast<double>(bytes), static_cast<double>(free));
  }
  CUDA_CHECK(code);
  return memory;
}

void CudaDevice::deallocate(void* pointer) noexcept { static_cast<void>(cudaFree(pointer)); }

void CudaDevice::copy_from_host(void* device, void const* host, std::size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  CUDA_CHECK(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, cuda_stream(stream).get()));
}

void CudaDevice::copy_to_host(void* host, void const* device, std::size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  CUDA_CHECK(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, cuda_stream(stream).get()));
}

void CudaDevice::copy(void* to, void const* from, std::size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, cuda_stream(stream).get()));
}

void CudaDevice::fill_bytes(void* device, int value, std::size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  CUDA_CHECK(cudaMemsetAsync(device, value, bytes, cuda_stream(stream).get()));
}

std::string CudaDevice::bus_id() const {
  std::array<char, 32> bus{};
  CUDA_CHECK(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), ordinal_));
  return bus.data();
}

DeviceState CudaDevice::state() { return nvml_state(bus_id().c_str()); }

void CudaDevice::profile_start() { CUDA_CHECK(cudaProfilerStart()); }
void CudaDevice::profile_stop() { CUDA_CHECK(cudaProfilerStop()); }

void CudaDevice::synchronize() {
  cudaError_t const code = cudaDeviceSynchronize();
  context_->fault.check();
  CUDA_CHECK(code);
}

}  // namespace shardbench
