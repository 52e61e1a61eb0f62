

#include "harness/schedule/actions.hpp"
#include "harness/schedule/schedule_rules.hpp"

namespace shardbench {
namespace {

void order_gpipe(PipelineSchedule& s) {
  for (auto& actions : s.order) {
    for (std::int32_t m = 0; m < s.microbatches; ++m) actions.push_back(forward(0, m));
    for (std::int32_t m = 0; m < s.microbatches; ++m) actions.push_back(backward(0, m));
  }
}

}  // namespace

constinit ScheduleRules const gpipe_rules{
    .name = "gpipe",
    .summary = "all forwards, then all backwards",
    .source = "Huang et al. 2019, GPipe",
    .megatron = std::nullopt,
    .torchtitan = "GPipe",
    .fixed_chunks = 1,
    .layout = PieceLayout::round_robin,
    .even_stages = false,
    .microbatches = any_microbatches,
    .splits_backward = false,
    .sends_ahead = never_sends_ahead,
    .planned = false,
    .order = order_gpipe,
    .in_flight = [](PipelineSize const& size, double) { return size.microbatches; },
    .bubble_formula = "(p-1)(F+B)",
    .bubble = fill_and_drain,
    .longest_path = [](StagePath const& path) { return fill_and_drain_path(path, path.size.microbatches - 1); },
};

}  // namespace shardbench
