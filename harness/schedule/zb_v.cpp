#include <algorithm>

#include "harness/schedule/schedule_rules.hpp"
#include "harness/schedule/zero_bubble.hpp"

namespace shardbench {
namespace {

double longest_path(StagePath const& path) {
  double const way_here = path.before * path.own.transfer;
  // The first gradient comes when the first microbatch has passed all pieces and come back to the stage.
  double const first =
      path.forward_all + 2 * (path.size.stages - 1) * path.own.transfer + path.input_before / 2 + way_here;
  return path.work +
         std::max(path.forward_before / 2 + way_here, first - std::min(path.size.microbatches, path.size.stages) *
                                                                  (path.own.forward + 2 * path.received / 4));
}

}  // namespace

constinit ScheduleRules const zb_v_rules{
    .name = "zb-v",
    .summary = "two chunks a stage in a V, weight gradients fill the bubble",
    .source = "Qi et al. 2024, Pipeline Parallelism with Controllable Memory",
    .megatron = std::nullopt,
    .torchtitan = "ZBVZeroBubble",
    .fixed_chunks = 2,
    .layout = PieceLayout::folded,
    .even_stages = false,
    .microbatches = any_microbatches,
    .splits_backward = true,
    .sends_ahead = [](std::int64_t, std::int64_t) { return true; },
    .planned = true,
    // Half-size chunks, 2 * stages of them: the memory of 1F1B's first stage, on every stage.
    .order = [](PipelineSchedule& s) { order_zero_bubble(s, 2 * s.stages); },
    .in_flight = [](PipelineSize const& size, double) { return std::min(size.microbatches, size.stages); },
    .bubble_formula = "",
    .bubble = [](PipelineSize const&, PassTimes const&) { return std::optional<double>(); },
    .longest_path = longest_path,
};

}  // namespace shardbench
