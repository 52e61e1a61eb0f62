// What the machine and its GPUs are, and the words for errors.
#include <cstdio>
#include <cstring>

#include "runtime.hpp"

char const* cudaGetErrorName(cudaError_t code) {
  switch (code) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
  }
  return "unknown";
}

char const* cudaGetErrorString(cudaError_t) { return "reported by the emulated GPU"; }
cudaError_t cudaGetLastError() { return cudaSuccess; }

namespace {

/// GPUs of this machine. Each process has the memory of its own GPU; a number only says which one it took.
int gpu_count() {
  constexpr int usual = 8;
  static int const asked = emulation::from_environment("SHARDBENCH_EMU_GPUS");
  return asked > 0 ? asked : usual;
}

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) {
  *count = gpu_count();
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  properties->uuid.bytes[0] = static_cast<char>(device);
  std::strcpy(properties->name, "Emulated GPU (functional only)");
  properties->major = 9;
  properties->multiProcessorCount = 1;
  std::size_t free = 0;
  return cudaMemGetInfo(&free, &properties->totalGlobalMem);
}

cudaError_t cudaSetDevice(int device) {
  return device >= 0 && device < gpu_count() ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaDeviceGetPCIBusId(char* bus, int size, int device) {
  if (size < 13) return cudaErrorInvalidValue;
  std::snprintf(bus, static_cast<std::size_t>(size), "0000:%02x:00.0", static_cast<unsigned>(device) & 0xffu);
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
