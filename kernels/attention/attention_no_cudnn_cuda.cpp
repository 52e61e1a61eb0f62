// In the place of attention_cudnn_cuda.cpp where cuDNN or its frontend's headers were not found.
#include "kernels/attention/attention_cudnn_cuda.hpp"

namespace shardbench::cuda {

std::string cudnn_problem() { return "this build has no cuDNN (its headers or its frontend's were not found)"; }
void cudnn_attention_forward(Stream&, AttentionForwardArgs const&) { throw IllegalConfig(cudnn_problem()); }
void cudnn_attention_backward(Stream&, AttentionBackwardArgs const&) { throw IllegalConfig(cudnn_problem()); }
std::size_t cudnn_attention_workspace(Stream&, AttentionShape const&, bool) { return 0; }

}  // namespace shardbench::cuda
