#include "kernels/core/cuda/stream.hpp"

namespace shardbench {

std::string_view cuda_backend_name() { return "cuda-emulated"; }

}  // namespace shardbench
