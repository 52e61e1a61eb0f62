#include "harness/program/passes/inference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "harness/program/graph/inference.hpp"
#include "harness/program/passes/buckets.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

void add_weight_bucket(Tape& t, std::int32_t chunk, ParameterId first_parameter) {
  StepProgram& p = t.program;
  if (first_parameter == std::ssize(p.parameters)) return;
  BucketId const index(p.buckets.size());
  Bucket bucket;
  bucket.chunk = chunk;
  for (std::int32_t i = first_parameter; i < std::ssize(p.parameters); ++i) bucket.parameters.push_back(i);
  bucket.elements = bucket.shard_elements = padded_elements(p, bucket);
  bucket.weights = t.new_tensor(fmt::format("bucket{}.weights", std::int32_t{index}), TensorRole::parameter,
                                p.precision, bucket.elements, 1);
  place_parameters(p, bucket, index);
  p.buckets.push_back(std::move(bucket));
}

void order_inference(Tape& t, std::vector<Action> const& order) {
  StepProgram& p = t.program;
  auto const stages = p.degree[Axis::pp];
  p.actions = order;
  bool const first = p.stage == 0, last = p.stage + 1 == stages;
  if (t.experiment.phase != PhaseKind::decode || stages == 1 || (!first && !last) || p.inference.next_ids == no_tensor)
    return;
  t.begin_chunk(all_chunks);
  t.set_phase("forward");
  hand_on_token(t, last);
  p.segments.push_back({ActionKind::decode, 0, t.take_forward()});
  std::vector<Action> actions;
  for (Action const& action : p.actions) {
    actions.push_back(action);
    // The last stage sends a token as soon as it is chosen.
    if (last && action.kind == ActionKind::forward)
      actions.push_back({.kind = ActionKind::decode, .microbatch = action.microbatch});
  }
  for (std::int32_t m = 0; first && m < static_cast<std::int32_t>(p.microbatches); ++m)
    actions.push_back({.kind = ActionKind::decode, .microbatch = m});
  p.actions = std::move(actions);
}

std::int64_t kv_bytes_per_token(StepProgram const& p) {
  std::int64_t bytes = 0;
  for (Tensor const& t : p.tensors)
    if (t.role == TensorRole::kv_cache) bytes += t.cols * static_cast<std::int64_t>(bytes_of(t.dtype));
  return bytes;
}

}  // namespace shardbench
