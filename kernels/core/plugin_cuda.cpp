#include <cstdio>
#include <string>

#include "kernels/core/cuda/nvml.hpp"
#include "kernels/core/cuda/plugin.hpp"
#include "kernels/core/cuda/stream.hpp"

namespace shardbench {
namespace {

/// A GPU's UUID in hexadecimal; under MIG that of the instance.
std::string name_of(int ordinal) {
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDeviceProperties(&properties, ordinal));
  std::string name;
  for (char const byte : properties.uuid.bytes)
    for (int const shift : {4, 0}) name += "0123456789abcdef"[static_cast<unsigned char>(byte) >> shift & 0xf];
  return name;
}

std::string visible_gpus() {
  int count = 0;
  CUDA_CHECK(cudaGetDeviceCount(&count));
  std::string names;
  for (int i = 0; i < count; ++i) names += (i == 0 ? "" : ",") + name_of(i);
  return names;
}

}  // namespace
}  // namespace shardbench

extern "C" bool shardbench_visible_gpus(char* text, std::size_t size) {
  try {
    std::snprintf(text, size, "%s", shardbench::visible_gpus().c_str());
    return true;
  } catch (std::exception const& failure) {
    std::snprintf(text, size, "%s", failure.what());
    return false;
  }
}

extern "C" bool shardbench_choose_attention(shardbench::Device* device, char const* kernel, char* error,
                                            std::size_t error_size) {
  try {
    static_cast<shardbench::CudaDevice&>(*device).choose_attention(kernel);
    return true;
  } catch (std::exception const& failure) {
    std::snprintf(error, error_size, "%s", failure.what());
    return false;
  }
}

extern "C" int shardbench_nvlinks(shardbench::Device* device) {
  return shardbench::nvml_links(static_cast<shardbench::CudaDevice&>(*device).bus_id().c_str());
}

extern "C" shardbench::Device* shardbench_make_device(int ordinal, char* error, std::size_t error_size) {
  try {
    return new shardbench::CudaDevice(ordinal);
  } catch (std::exception const& failure) {
    std::snprintf(error, error_size, "%s", failure.what());
    return nullptr;
  }
}
