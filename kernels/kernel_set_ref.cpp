#include "kernels/kernel_set_ref.hpp"

#include "kernels/core/enqueue_on_host.hpp"

namespace shardbench {

KernelSet const& reference_kernels() {
  static KernelSet const set = {.name = "reference",
                                .attention_kernel = "full softmax rows (double)",
#define SHARDBENCH_ENTRY(name, Args) .name = enqueue_on_host<Args, reference::name>,
                                SHARDBENCH_EACH_KERNEL(SHARDBENCH_ENTRY)
#undef SHARDBENCH_ENTRY
  };
  return set;
}

}  // namespace shardbench
