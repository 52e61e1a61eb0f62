#include "harness/exec/parameter_parts.hpp"

#include <algorithm>
#include <cmath>

#include "harness/exec/agreement.hpp"
#include "harness/program/passes/gradient_norm.hpp"

namespace shardbench {

std::string_view to_string(ParameterPart part) { return part == ParameterPart::gradient ? "gradient" : "weight"; }

std::map<std::string, std::vector<SectionPlace>> sections_of(StepProgram const& p) {
  std::map<std::string, std::vector<SectionPlace>> places;
  for (std::size_t i = 0; i < p.parameters.size(); ++i) {
    std::int64_t row = 0;
    for (ParameterSection const& s : p.parameters[i].sections) {
      places[s.key].push_back({i, row, &s});
      row += s.rows;
    }
  }
  return places;
}

std::vector<std::vector<float>> read_parameters(Runner& runner, ParameterPart part) {
  StepProgram const& p = runner.program();
  bool const gradients = part == ParameterPart::gradient;
  std::vector<std::vector<float>> values(p.parameters.size());
  for (Bucket const& bucket : p.buckets) {
    TensorId const shard = gradients ? bucket.gradient_shard : bucket.weight_shard;
    bool const shards = shard != no_tensor;
    std::vector<float> whole(shards ? bucket.elements : 0);
    if (shards) std::ranges::copy(runner.read(shard), whole.begin() + bucket.shard_begin);
    for (ParameterId const i : bucket.parameters) {
      Parameter const& parameter = p.parameters[i];
      if (!shards) {
        values[i] = runner.read(gradients ? parameter.gradient : parameter.weight);
        continue;
      }
      auto const first = whole.begin() + p.tensors[parameter.weight].storage_offset;
      values[i].assign(first, first + parameter.elements());
    }
  }
  return values;
}

bool holds(StepProgram const& program, Parameter const& parameter, std::int64_t element, ParameterPart part) {
  Bucket const& bucket = program.buckets[parameter.bucket];
  if (bucket.shard_elements == bucket.elements || (part == ParameterPart::weight && bucket.weight_shard == no_tensor))
    return true;
  std::int64_t const at = program.tensors[parameter.weight].storage_offset + element;
  return at >= bucket.shard_begin && at < bucket.shard_begin + bucket.shard_elements;
}

double gradient_norm(Runner& runner, Communicator& world) {
  StepProgram const& p = runner.program();
  double squares = 0;
  for (Bucket const& bucket : p.buckets) {
    auto const ranges = counted_ranges(p, bucket);
    if (ranges.empty()) continue;
    bool const own_shard = bucket.gradient_shard != no_tensor;
    std::vector<float> const values = runner.read(own_shard ? bucket.gradient_shard : bucket.gradients);
    std::int64_t const first = own_shard ? bucket.shard_begin : 0;
    for (auto const& [begin, end] : ranges)
      for (std::int64_t i = begin; i < end; ++i) {
        auto const value = static_cast<double>(values[i - first]);
        squares += value * value;
      }
  }
  return std::sqrt(Agreement(world).sum(squares));
}

}  // namespace shardbench
