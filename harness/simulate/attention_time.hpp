#pragma once
#include "harness/config/system_profile.hpp"
#include "kernels/attention/attention.hpp"

namespace shardbench {

/// Microseconds of one fused attention op of a training step, without its launch: a query tile walks the keys that it
/// sees (a causal tile half a tile more than its queries see) and pays `tile_overhead` keys besides; tiles fill the
/// processors, no faster than the longest of them, nor than memory moves the operands. Head sizes are padded to the
/// tiles of the kernels. Backward: its products at `backward_share` of that rate. Needs DeviceProfile::attention.
double attention_us(DeviceProfile const& device, Dtype precision, AttentionOpShape const& shape, bool forward);

/// The same for a prompt in a serving engine: its launches, and the pass that turns queries and keys and fills the
/// cache, included. `cache`: precision of the kept keys and values. shape.seq_k counts keys kept before too.
double prompt_attention_us(DeviceProfile const& device, Dtype precision, Dtype cache, AttentionOpShape const& shape);

/// The kernel that takes such heads: of the smallest tiles that hold them, else the largest there is. Kernels of bf16
/// stand in for a precision that has none.
AttentionKernel const& attention_kernel(AttentionProfile const& profile, Dtype precision, Dtype cache, double head_dim,
                                        double value_dim);

}  // namespace shardbench
