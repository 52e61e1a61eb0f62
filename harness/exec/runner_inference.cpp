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

void Runner::put_ids(TensorId id, std::vector<std::int32_t> const& values, std::int32_t microbatch) {
  Stream& stream = *queue(StreamId::compute).stream;
  device_.copy_from_host(Operands(program_, plan_, arena_, microbatch).at({id, 0, 0}), values.data(),
                         values.size() * sizeof(std::int32_t), stream);
  stream.synchronize();
}

void Runner::set_position(std::int64_t position) {
  VALIDATE(position >= 0 && position <= program_.context,
           "position " + std::to_string(position) + " is not among the 0 to " + std::to_string(program_.context) +
               " that the cache has room before");
  synchronize();
  position_ = position;
  std::vector<std::int32_t> positions, per_token;
  for (std::int32_t const within : positions_of(program_)) {
    positions.push_back(static_cast<std::int32_t>(position) + within);
    per_token.insert(per_token.end(), static_cast<std::size_t>(program_.micro_batch), positions.back());
  }
  put_ids(program_.positions, positions, 0);
  if (program_.token_positions != no_tensor) put_ids(program_.token_positions, per_token, 0);
  for (std::int32_t m = 0; program_.token_numbers != no_tensor && m < static_cast<std::int32_t>(program_.microbatches);
       ++m) {
    // Experts are prescribed by the number of a token among those of all sequences, as in training.
    std::vector<std::int32_t> numbers;
    for (std::int32_t const at : positions)
      for (std::int64_t b = 0; b < program_.micro_batch; ++b) {
        std::int64_t const sample = program_.first_sample + m * program_.micro_batch + b;
        std::int64_t const n = sample * (program_.context + program_.seq) + at;
        numbers.push_back(
            static_cast<std::int32_t>(n % program_.number_period * program_.number_stride % program_.number_period));
      }
    put_ids(program_.token_numbers, numbers, m);
  }
}

void Runner::set_prompt(std::uint64_t seed) {
  if (program_.ids == no_tensor) return;
  synchronize();
  for (std::int32_t m = 0; m < static_cast<std::int32_t>(program_.microbatches); ++m) {
    std::vector<std::int32_t> ids;
    for (std::int32_t const within : positions_of(program_))
      for (std::int64_t b = 0; b < program_.micro_batch; ++b)
        ids.push_back(token_id(seed, program_.first_sample + m * program_.micro_batch + b, position_ + within,
                               token_stride, program_.vocab));
    put_ids(program_.ids, ids, m);
  }
}

std::vector<std::int32_t> Runner::read_tokens(TensorId id, std::int32_t microbatch) {
  synchronize();
  Tensor const& t = program_.tensors[static_cast<std::size_t>(id)];
  std::vector<std::int32_t> values(static_cast<std::size_t>(t.elements()));
  Stream& stream = *queue(StreamId::compute).stream;
  device_.copy_to_host(values.data(), Operands(program_, plan_, arena_, microbatch).at({id, 0, 0}),
                       values.size() * sizeof(std::int32_t), stream);
  stream.synchronize();
  return values;
}

}  // namespace shardbench
