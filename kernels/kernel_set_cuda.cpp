#include "kernels/kernel_set_cuda.hpp"

#include "kernels/attention/attention_cudnn_cuda.hpp"

namespace shardbench {

KernelSet const& cuda_kernels() {
  static KernelSet const set{
      .name = "cuda",
      .attention_kernel = "query-blocks",
      .gemm = cuda::gemm,
      .grouped_gemm = cuda::grouped_gemm,
      .attention_forward = cuda::attention_forward,
      .attention_backward = cuda::attention_backward,
      .attention_merge = cuda::attention_merge,
      .norm_forward = cuda::norm_forward,
      .norm_backward = cuda::norm_backward,
      .im2col = cuda::im2col,
      .col2im = cuda::col2im,
      .depthwise_forward = cuda::depthwise_forward,
      .depthwise_backward = cuda::depthwise_backward,
      .batch_norm_forward = cuda::batch_norm_forward,
      .batch_norm_backward = cuda::batch_norm_backward,
      .max_pool_forward = cuda::max_pool_forward,
      .max_pool_backward = cuda::max_pool_backward,
      .upsample_forward = cuda::upsample_forward,
      .upsample_backward = cuda::upsample_backward,
      .pool_rows_forward = cuda::pool_rows_forward,
      .pool_rows_backward = cuda::pool_rows_backward,
      .rope = cuda::rope,
      .activation_forward = cuda::activation_forward,
      .activation_backward = cuda::activation_backward,
      .embedding_forward = cuda::embedding_forward,
      .embedding_backward = cuda::embedding_backward,
      .cross_entropy_max = cuda::cross_entropy_max,
      .cross_entropy_sum = cuda::cross_entropy_sum,
      .cross_entropy_loss = cuda::cross_entropy_loss,
      .cross_entropy_backward = cuda::cross_entropy_backward,
      .adamw = cuda::adamw,
      .add = cuda::add,
      .column_sum = cuda::column_sum,
      .copy_block = cuda::copy_block,
      .square_sum = cuda::square_sum,
      .scale = cuda::scale,
      .router_forward = cuda::router_forward,
      .router_backward = cuda::router_backward,
      .expert_rows = cuda::expert_rows,
      .source_rows = cuda::source_rows,
      .permute = cuda::permute,
      .unpermute = cuda::unpermute,
      .combine_weights = cuda::combine_weights,
      .join_keys = cuda::join_keys,
      .split_keys = cuda::split_keys,
      .best_token = cuda::best_token,
      .pick_token = cuda::pick_token,
      .dropout = cuda::dropout,
      .clip_factor = cuda::clip_factor,
  };
  return set;
}

KernelSet const& cuda_kernels_with_cudnn() {
  static KernelSet const set = [] {
    KernelSet fused = cuda_kernels();
    fused.attention_kernel = "cudnn";
    fused.attention_forward = cuda::cudnn_attention_forward;
    fused.attention_backward = cuda::cudnn_attention_backward;
    return fused;
  }();
  return set;
}

}  // namespace shardbench
