// host_kernels() for tests/kernels, with every call run on the emulated GPU: its memory is host memory, so the tests'
// pointers serve as they are. After each call the GPU is waited for, and must have found nothing out of order.
#include <stdexcept>

#include "emulation.hpp"
#include "kernels/core/cuda/stream.hpp"
#include "kernels/kernel_set_cuda.hpp"

namespace shardbench {
namespace {

struct Gpu {
  Gpu() { emulation::accept_host_memory(true); }
  CudaDevice device{0};
  std::unique_ptr<Stream> stream = device.make_stream(StreamKind::compute);
};

template <auto kernel, class Args>
void run_on_gpu(Stream&, Args const& args) {
  static auto* const gpu = new Gpu;  // never ended: its threads must not outlive what they use
  kernel(*gpu->stream, args);
  gpu->stream->synchronize();
  auto const races = emulation::take_races(), overruns = emulation::find_overruns();
  if (!races.empty()) throw std::runtime_error(races.front());
  if (!overruns.empty()) throw std::runtime_error(overruns.front());
}

}  // namespace

KernelSet const& host_kernels() {
  static KernelSet const set{.name = "cuda-emulated",
                             .attention_kernel = cuda_kernels().attention_kernel,
#define SHARDBENCH_ENTRY(name, Args) .name = run_on_gpu<cuda::name>,
                             SHARDBENCH_EACH_KERNEL(SHARDBENCH_ENTRY)
#undef SHARDBENCH_ENTRY
  };
  return set;
}

}  // namespace shardbench
