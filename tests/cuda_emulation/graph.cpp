// In the place of kernels/core/graph_cuda.cpp.
#include "kernels/core/cuda/stream.hpp"

namespace shardbench {

std::string CudaDevice::graph_problem() const { return "the emulated GPU has no CUDA graphs"; }

std::unique_ptr<Graph> CudaDevice::capture(Stream& origin, std::function<void()> const& enqueue) {
  return Device::capture(origin, enqueue);
}

}  // namespace shardbench
