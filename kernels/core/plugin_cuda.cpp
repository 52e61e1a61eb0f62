#include <cstdio>
#include <string>

#include "kernels/core/cuda/plugin.hpp"
#include "kernels/core/cuda/stream.hpp"

extern "C" shardbench::Device* shardbench_make_device(int ordinal, char* error, std::size_t error_size) {
  try {
    return new shardbench::CudaDevice(ordinal);
  } catch (std::exception const& failure) {
    std::snprintf(error, error_size, "%s", failure.what());
    return nullptr;
  }
}
