#pragma once
// Small pure rules about sizes.
#include <cstdint>
#include <string>

namespace shardbench {

/// The least multiple of `unit` that is not below `n`.
constexpr std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

/// What an FP8 GEMM refuses about a [rows, cols] operand: rows % 8, cols % 16 (Transformer Engine); empty when fine.
std::string fp8_problem(std::int64_t rows, std::int64_t cols);

/// ceil(factor * tokens * top_k / experts), at most `tokens`: a token visits an expert once.
std::int64_t expert_capacity(std::int64_t tokens, std::int64_t top_k, std::int64_t experts, double factor);

}  // namespace shardbench
