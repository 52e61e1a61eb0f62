#include <algorithm>
#include <cmath>

#include "harness/schedule/actions.hpp"
#include "harness/schedule/schedule_rules.hpp"

namespace shardbench {
namespace {

/// Microbatches of a step go through the chunks in rounds: as many as each is as long as the pipeline at least.
std::int64_t rounds_of(std::int64_t microbatches, std::int64_t stages) {
  return std::max<std::int64_t>(1, microbatches / stages);
}

/// Microbatches in flight on a stage: its warm-up of Megatron's order, in chunks.
double in_flight(PipelineSize const& size, double stage) {
  double const behind = size.stages - stage;
  double const round = std::ceil(size.microbatches / std::max(1.0, std::floor(size.microbatches / size.stages)));
  return std::min(size.microbatches, (2 * (behind - 1) + (size.chunks - 1) * round + 1) / size.chunks);
}

/// Published for rounds as long as the pipeline; stages wait for buffers of messages in longer ones.
std::optional<double> bubble(PipelineSize const& size, PassTimes const& stage) {
  if (std::fmod(size.microbatches, size.stages) != 0) return std::nullopt;
  return (size.stages - 1) * (stage.forward + stage.backward()) / size.chunks;
}

double longest_path(StagePath const& path) {
  return path.work + (path.forward_before + path.backward_before) / path.size.chunks +
         2 * path.before * path.own.transfer;
}

/// A forward pass of a chunk.
struct ChunkPass {
  std::int32_t chunk, microbatch;
};

/// The forward passes of a stage in their order: the microbatches of a round go through chunk 0, then chunk 1, ...,
/// then those of the next round. Backward takes the same rounds from the last chunk to the first.
std::vector<ChunkPass> passes_of(PipelineSchedule const& s) {
  auto const rounds = static_cast<std::int32_t>(rounds_of(s.microbatches, s.stages));
  std::int32_t const each = s.microbatches / rounds, longer = s.microbatches % rounds;
  std::vector<ChunkPass> passes;
  for (std::int32_t round = 0, first = 0; round < rounds; ++round) {
    std::int32_t const size = each + (round < longer ? 1 : 0);
    for (std::int32_t chunk = 0; chunk < s.chunks; ++chunk)
      for (std::int32_t i = 0; i < size; ++i) passes.push_back({chunk, first + i});
    first += size;
  }
  return passes;
}

void order_interleaved(PipelineSchedule& s) {
  std::vector<ChunkPass> const passes = passes_of(s);
  auto const total = static_cast<std::int32_t>(passes.size());
  auto const rounds = static_cast<std::int32_t>(rounds_of(s.microbatches, s.stages));
  std::int32_t const longest = (s.microbatches + rounds - 1) / rounds;
  for (std::int32_t stage = 0; stage < s.stages; ++stage) {
    auto& actions = s.order[stage];
    std::int32_t const warmup = s.chunks == 1 ? std::min(s.stages - 1 - stage, total)
                                              : std::min((s.stages - 1 - stage) * 2 + (s.chunks - 1) * longest, total);
    for (std::int32_t k = 0; k < total + warmup; ++k) {
      if (k < total) actions.push_back(forward(passes[k].chunk, passes[k].microbatch));
      if (k < warmup) continue;
      ChunkPass const& back = passes[k - warmup];
      actions.push_back(backward(s.chunks - 1 - back.chunk, back.microbatch));
    }
  }
}

}  // namespace

constinit ScheduleRules const interleaved_rules{
    .name = "interleaved",
    .summary = "N model chunks a stage: the bubble shrinks by N, messages grow by N",
    .source = "Narayanan et al. 2021, Efficient Large-Scale Training on GPU Clusters",
    .megatron = "--num-virtual-stages-per-pipeline-rank",
    .torchtitan = "Interleaved1F1B",
    .fixed_chunks = 0,
    .layout = PieceLayout::round_robin,
    .even_stages = false,
    .microbatches = any_microbatches,
    .splits_backward = false,
    .sends_ahead = [](std::int64_t stages, std::int64_t microbatches) { return microbatches % stages != 0; },
    .planned = true,
    .order = order_interleaved,
    .in_flight = in_flight,
    .bubble_formula = "(p-1)(F+B)/v",
    .bubble = bubble,
    .longest_path = longest_path,
};

}  // namespace shardbench
