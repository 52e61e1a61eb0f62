// Lives beside NCCL because it names all of the back end's libraries at once.
#include <string>

#include "harness/comm/communicator_nccl.hpp"
#include "kernels/core/cuda/plugin.hpp"
#include "kernels/core/cuda/stream.hpp"
#include "kernels/core/cuda/versions.hpp"

namespace shardbench {
namespace {

/// "13.0" of 13000.
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string all_versions() {
  int runtime = 0, driver = 0;
  CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  CUDA_CHECK(cudaDriverGetVersion(&driver));
  return "CUDA " + version_text(runtime) + ", driver " + (driver ? version_text(driver) : "none") + ", cuBLASLt " +
         cublas_version() + ", NCCL " + nccl_version();
}

}  // namespace
}  // namespace shardbench

extern "C" char const* shardbench_cuda_versions() {
  static std::string const versions = shardbench::all_versions();
  return versions.c_str();
}
