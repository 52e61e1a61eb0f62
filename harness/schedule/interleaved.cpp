#include <fmt/format.h>

#include <algorithm>

#include "harness/schedule/actions.hpp"
#include "harness/schedule/schedule_rules.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

std::string problem(std::int64_t pp, std::int64_t microbatches) {
  return fmt::format("{} microbatches are not a multiple of pp {} (interleaved); legal: multiples of {}", microbatches,
                     pp, pp);
}

/// Microbatches in flight on a stage: its warm-up of Megatron's order, in chunks.
double in_flight(PipelineSize const& size, double stage) {
  double const behind = size.stages - stage;
  return std::min(size.microbatches, (2 * (behind - 1) + (size.chunks - 1) * size.stages + 1) / size.chunks);
}

std::optional<double> bubble(PipelineSize const& size, PassTimes const& stage) {
  return (size.stages - 1) * (stage.forward + stage.backward()) / size.chunks;
}

double longest_path(StagePath const& path) {
  return path.work + (path.forward_before + path.backward_before) / path.size.chunks +
         2 * path.before * path.own.transfer;
}

void order_interleaved(PipelineSchedule& s) {
  std::int32_t const rounds = std::max(1, s.microbatches / s.stages);
  if (s.microbatches % rounds != 0)
    throw IllegalConfig(
        fmt::format("interleaved: {} microbatches do not fall into {} equal rounds of about pp={} "
                    "(legal: multiples of pp, or up to 2*pp-1)",
                    s.microbatches, rounds, s.stages));
  std::int32_t const per_round = s.microbatches / rounds;
  std::int32_t const total = s.microbatches * s.chunks;
  // The k-th forward of a stage: `per_round` microbatches go through chunk 0, then chunk 1, ..., then the next round.
  auto const chunk_of = [&](std::int32_t k) { return (k / per_round) % s.chunks; };
  auto const microbatch_of = [&](std::int32_t k) { return k / (per_round * s.chunks) * per_round + k % per_round; };
  for (std::int32_t stage = 0; stage < s.stages; ++stage) {
    auto& actions = s.order[stage];
    std::int32_t const warmup = s.chunks == 1
                                    ? std::min(s.stages - 1 - stage, total)
                                    : std::min((s.stages - 1 - stage) * 2 + (s.chunks - 1) * per_round, total);
    for (std::int32_t k = 0; k < total + warmup; ++k) {
      if (k < total) actions.push_back(forward(chunk_of(k), microbatch_of(k)));
      if (k >= warmup) actions.push_back(backward(s.chunks - 1 - chunk_of(k - warmup), microbatch_of(k - warmup)));
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
    .microbatches = {.fit = [](std::int64_t pp, std::int64_t microbatches) { return microbatches % pp == 0; },
                     .problem = problem},
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
