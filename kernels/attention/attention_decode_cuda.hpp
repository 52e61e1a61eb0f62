#pragma once
#include "kernels/attention/attention.hpp"
#include "kernels/core/cuda/stream.hpp"

namespace shardbench::cuda {

/// Whether one kernel takes it all: one query a sequence, heads no wider than its registers hold.
bool decode_fits(AttentionShape const& shape);

/// Forward attention of one query a sequence over its cache; decode_fits must hold.
void decode_attention(CudaStream& stream, AttentionForwardArgs const& args);

}  // namespace shardbench::cuda
