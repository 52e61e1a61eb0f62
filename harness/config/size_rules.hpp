#pragma once
// Small pure rules about sizes; each throws IllegalConfig or InputError with the numbers in one line.
#include <cstdint>
#include <optional>
#include <string>

namespace shardbench {

/// The least multiple of `unit` that is not below `n`.
constexpr std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

/// What an FP8 GEMM refuses about a [rows, cols] operand: rows % 8, cols % 16 (Transformer Engine); empty when fine.
std::string fp8_problem(std::int64_t rows, std::int64_t cols);
/// Throws IllegalConfig with fp8_problem.
void check_fp8_dims(std::int64_t rows, std::int64_t cols);

/// The size a rank has of a dim cut over `tp`, which must be a multiple of `block` (32 for MXFP8 channels, 8 for its
/// rows). Throws IllegalConfig naming the padded global size.
std::int64_t check_local_block(std::string_view what, std::int64_t global, std::int64_t tp, std::int64_t block);

/// ceil(factor * tokens * top_k / experts), at most `tokens`: a token visits an expert once.
std::int64_t expert_capacity(std::int64_t tokens, std::int64_t top_k, std::int64_t experts, double factor);

/// global = micro * accumulation * world. Exactly one may be left out and is derived; nothing is rounded.
struct BatchTriple {
  std::int64_t global = 0, micro = 0, accumulation = 0;
};
BatchTriple complete_batch(std::optional<std::int64_t> global, std::optional<std::int64_t> micro,
                           std::optional<std::int64_t> accumulation, std::int64_t world);

/// Per-rank batch of plain data parallelism; a batch below 1 (automatic) is refused on several ranks (case L06).
std::int64_t ddp_batch(std::int64_t batch, std::int64_t ranks);

/// Replicas of tp*pp ranks that fit; throws when `wanted` do not (case L05).
std::int64_t check_replicas(std::int64_t wanted, std::int64_t ranks_each, std::int64_t ranks);

/// Rounds of flexible interleaving: max(1, m / pp), legal when m is a multiple of it (case P05).
std::int64_t flexible_rounds(std::int64_t microbatches, std::int64_t pp);

}  // namespace shardbench
