#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/exec/runner.hpp"

namespace shardbench {

enum class ParameterPart : std::uint8_t { gradient, weight };
std::string_view to_string(ParameterPart part);

/// Where a named section lies in a rank's parameters.
struct SectionPlace {
  ParameterId parameter;
  std::int64_t row_offset = 0;
  ParameterSection const* section = nullptr;
};
std::map<std::string, std::vector<SectionPlace>> sections_of(StepProgram const& program);

/// Gradients or weights of every parameter of a rank; where a bucket is kept in shards, zeros outside this rank's.
std::vector<std::vector<float>> read_parameters(Runner& runner, ParameterPart part);

/// Whether a rank holds an element of its parameter: gradients that are sharded over dp are whole in its shard only, and
/// so are weights under ZeRO-3.
bool holds(StepProgram const& program, Parameter const& parameter, std::int64_t element, ParameterPart part);

/// The norm of all gradients as they are after Runner::run_gradients: of the whole model, each element counted once.
/// Collective over `world`.
double gradient_norm(Runner& runner, Communicator& world);

}  // namespace shardbench
