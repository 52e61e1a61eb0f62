#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

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

}  // namespace shardbench
