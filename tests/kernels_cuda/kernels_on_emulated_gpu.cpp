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
  static KernelSet const set{
      .name = "cuda-emulated",
      .attention_kernel = cuda_kernels().attention_kernel,
      .gemm = run_on_gpu<cuda::gemm>,
      .grouped_gemm = run_on_gpu<cuda::grouped_gemm>,
      .attention_forward = run_on_gpu<cuda::attention_forward>,
      .attention_backward = run_on_gpu<cuda::attention_backward>,
      .attention_merge = run_on_gpu<cuda::attention_merge>,
      .norm_forward = run_on_gpu<cuda::norm_forward>,
      .norm_backward = run_on_gpu<cuda::norm_backward>,
      .im2col = run_on_gpu<cuda::im2col>,
      .col2im = run_on_gpu<cuda::col2im>,
      .depthwise_forward = run_on_gpu<cuda::depthwise_forward>,
      .depthwise_backward = run_on_gpu<cuda::depthwise_backward>,
      .batch_norm_forward = run_on_gpu<cuda::batch_norm_forward>,
      .batch_norm_backward = run_on_gpu<cuda::batch_norm_backward>,
      .max_pool_forward = run_on_gpu<cuda::max_pool_forward>,
      .max_pool_backward = run_on_gpu<cuda::max_pool_backward>,
      .upsample_forward = run_on_gpu<cuda::upsample_forward>,
      .upsample_backward = run_on_gpu<cuda::upsample_backward>,
      .pool_rows_forward = run_on_gpu<cuda::pool_rows_forward>,
      .pool_rows_backward = run_on_gpu<cuda::pool_rows_backward>,
      .rope = run_on_gpu<cuda::rope>,
      .activation_forward = run_on_gpu<cuda::activation_forward>,
      .activation_backward = run_on_gpu<cuda::activation_backward>,
      .embedding_forward = run_on_gpu<cuda::embedding_forward>,
      .embedding_backward = run_on_gpu<cuda::embedding_backward>,
      .cross_entropy_max = run_on_gpu<cuda::cross_entropy_max>,
      .cross_entropy_sum = run_on_gpu<cuda::cross_entropy_sum>,
      .cross_entropy_loss = run_on_gpu<cuda::cross_entropy_loss>,
      .cross_entropy_backward = run_on_gpu<cuda::cross_entropy_backward>,
      .adamw = run_on_gpu<cuda::adamw>,
      .add = run_on_gpu<cuda::add>,
      .column_sum = run_on_gpu<cuda::column_sum>,
      .copy_block = run_on_gpu<cuda::copy_block>,
      .square_sum = run_on_gpu<cuda::square_sum>,
      .scale = run_on_gpu<cuda::scale>,
      .router_forward = run_on_gpu<cuda::router_forward>,
      .router_backward = run_on_gpu<cuda::router_backward>,
      .expert_rows = run_on_gpu<cuda::expert_rows>,
      .source_rows = run_on_gpu<cuda::source_rows>,
      .permute = run_on_gpu<cuda::permute>,
      .unpermute = run_on_gpu<cuda::unpermute>,
      .combine_weights = run_on_gpu<cuda::combine_weights>,
      .join_keys = run_on_gpu<cuda::join_keys>,
      .split_keys = run_on_gpu<cuda::split_keys>,
      .best_token = run_on_gpu<cuda::best_token>,
      .pick_token = run_on_gpu<cuda::pick_token>,
      .dropout = run_on_gpu<cuda::dropout>,
      .clip_factor = run_on_gpu<cuda::clip_factor>,
  };
  return set;
}

}  // namespace shardbench
