#include "kernels/kernel_set_cuda.hpp"

#include "kernels/attention/attention_cudnn_cuda.hpp"

namespace shardbench {

KernelSet const& cuda_kernels() {
  static KernelSet const set{.name = "cuda",
                             .attention_kernel = "query-blocks",
#define SHARDBENCH_ENTRY(name, Args) .name = cuda::name,
                             SHARDBENCH_EACH_KERNEL(SHARDBENCH_ENTRY)
#undef SHARDBENCH_ENTRY
  };
  return set;
}

KernelSet const& cuda_kernels_with_cudnn() {
  static KernelSet const set = [] {
    KernelSet fused = cuda_kernels();
    fused.attention_kernel = "cudnn";
    fused.attention_forward = cuda::cudnn_attention_forward;
    fused.attention_backward = cuda::cudnn_attention_backward;
    fused.attention_workspace = cuda::cudnn_attention_workspace;
    return fused;
  }();
  return set;
}

}  // namespace shardbench
