// Where a runner of inference stands in its sequences.
#include <vector>

#include "harness/exec/parameter_values.hpp"
#include "harness/exec/runner.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

/// Samples' tokens lie this far apart in the generator, whatever the length that a program asks for.
constexpr std::int64_t token_stride = std::int64_t{1} << 24;

}  // namespace

void Runner::set_position(std::int64_t position) {
  StepProgram const& p = program_;
  VALIDATE(position >= 0 && position <= p.inference.context,
           "position " + std::to_string(position) + " is not among the 0 to " + std::to_string(p.inference.context) +
               " that the cache has room before");
  synchronize();
  position_ = position;
  std::vector<std::int32_t> positions = positions_of(p), per_token;
  for (std::int32_t& at : positions) at += static_cast<std::int32_t>(position);
  each_row(p, 0, std::ssize(positions), [&](std::int64_t, std::int64_t row) { per_token.push_back(positions[row]); });
  put<std::int32_t>(p.inputs.positions, positions, 0);
  if (p.inputs.token_positions != no_tensor) put<std::int32_t>(p.inputs.token_positions, per_token, 0);
  TokenNumbers const& numbers = p.inputs.numbers;
  for (std::int32_t m = 0; numbers.tensor != no_tensor && m < p.microbatches; ++m) {
    // Experts are prescribed by the number of a token among those of all sequences, in inference as in training.
    std::vector<std::int32_t> values;
    each_row(p, m, std::ssize(positions), [&](std::int64_t sample, std::int64_t row) {
      values.push_back(numbers.value_of(sample * (p.inference.context + p.seq) + positions[row]));
    });
    put<std::int32_t>(numbers.tensor, values, m);
  }
}

void Runner::set_prompt(std::uint64_t seed) {
  TensorId const ids = program_.inputs.ids;
  if (ids == no_tensor) return;
  synchronize();
  for (std::int32_t m = 0; m < program_.microbatches; ++m)
    put<std::int32_t>(ids, tokens_of(program_, seed, m, position_, token_stride, options_.given.get()), m);
}

std::vector<std::int32_t> Runner::read_tokens(TensorId id, std::int32_t microbatch) {
  synchronize();
  return take<std::int32_t>(id, microbatch);
}

}  // namespace shardbench
