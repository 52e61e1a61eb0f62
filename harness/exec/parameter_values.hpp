#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "harness/exec/given_values.hpp"
#include "harness/program/step_program.hpp"

namespace shardbench {

/// Generator key of a named tensor.
std::uint64_t tensor_key(std::uint64_t seed, std::string_view name);

/// Initial values of this rank's part of a parameter, [rows, cols]; equal global elements get equal values on any cut.
std::vector<float> parameter_values(Parameter const& parameter, std::uint64_t seed);

/// Global positions of the rows of this rank's piece of a sequence.
std::vector<std::int32_t> positions_of(StepProgram const& program);

/// Token `position` of a sample's sequence of seq + 1 tokens (the last is only a target).
std::int32_t token_id(std::uint64_t seed, std::int64_t sample, std::int64_t position, std::int64_t seq,
                      std::int64_t vocab);

/// The tokens of a microbatch's rows that stand `first` places behind theirs: given ones, or drawn.
std::vector<std::int32_t> tokens_of(StepProgram const& program, std::uint64_t seed, std::int32_t microbatch,
                                    std::int64_t first, std::int64_t seq, GivenValues const* given = nullptr);

/// Calls f(global sample, row) for a microbatch's rows of (sequence, batch), sequence outermost.
template <class F>
void each_row(StepProgram const& p, std::int32_t microbatch, std::int64_t rows, F&& f) {
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t b = 0; b < p.micro_batch; ++b) f(p.first_sample + microbatch * p.micro_batch + b, row);
}

}  // namespace shardbench
