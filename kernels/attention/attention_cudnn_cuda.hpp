#pragma once
#include <string>

#include "kernels/attention/attention.hpp"
#include "kernels/core/cuda/stream.hpp"

namespace shardbench::cuda {

/// Why cuDNN's fused attention cannot be had in this build or on this machine; empty when it can.
std::string cudnn_problem();

/// The contracts of attention.hpp for bf16 heads of up to 128, equal lengths of queries and keys, no window, softcap or
/// positions, gradients overwritten. Throws IllegalConfig naming what else is asked for.
void cudnn_attention_forward(Stream& stream, AttentionForwardArgs const& args);
void cudnn_attention_backward(Stream& stream, AttentionBackwardArgs const& args);

/// Bytes of workspace that cuDNN asks for at this shape, with rows close together; all shapes of a stream share the
/// largest. 0 for a shape that is refused.
std::size_t cudnn_attention_workspace(Stream& stream, AttentionShape const& shape, bool backward);

}  // namespace shardbench::cuda
