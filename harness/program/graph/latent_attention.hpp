#pragma once
#include "harness/program/graph/tape.hpp"

namespace shardbench {

/// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434) over x, the normed residual stream: queries, keys and
/// values of every head come from low-rank latents.
Value latent_attention(Tape& t, Value x);

}  // namespace shardbench
