#include "kernels/kernel_set_host.hpp"

#include "kernels/core/enqueue_on_host.hpp"
#include "kernels/gemm/blas_host.hpp"

namespace shardbench {

KernelSet const& host_kernels() {
  static KernelSet const set = {.name = "host",
                                .attention_kernel = "blocked online softmax (BLAS)",
#define SHARDBENCH_ENTRY(name, Args) .name = enqueue_on_host<Args, host::name>,
                                SHARDBENCH_EACH_KERNEL(SHARDBENCH_ENTRY)
#undef SHARDBENCH_ENTRY
  };
  host::open_blas();  // here, on the thread that sets up: opening it changes the environment
  return set;
}

}  // namespace shardbench
