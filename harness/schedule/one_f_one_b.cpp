
#include <algorithm>

#include "harness/schedule/actions.hpp"
#include "harness/schedule/schedule_rules.hpp"

namespace shardbench {
namespace {

void order_1f1b(PipelineSchedule& s) {
  for (std::int32_t stage = 0; stage < s.stages; ++stage) {
    auto& actions = s.order[stage];
    std::int32_t const warmup = std::min(s.stages - 1 - stage, s.microbatches);
    for (std::int32_t m = 0; m < s.microbatches + warmup; ++m) {
      if (m < s.microbatches) actions.push_back(forward(0, m));
      if (m >= warmup) actions.push_back(backward(0, m - warmup));
    }
  }
}

}  // namespace

constinit ScheduleRules const one_f_one_b_rules{
    .name = "1f1b",
    .summary = "one forward, one backward: the bubble of GPipe, activations of at most pp microbatches",
    .source = "Narayanan et al. 2019, PipeDream; 2021, Memory-Efficient Pipeline-Parallel DNN Training",
    .megatron = "",
    .torchtitan = "1F1B",
    .fixed_chunks = 1,
    .layout = PieceLayout::round_robin,
    .even_stages = false,
    .microbatches = any_microbatches,
    .splits_backward = false,
    .sends_ahead = never_sends_ahead,
    .planned = true,
    .order = order_1f1b,
    .in_flight = [](PipelineSize const& size,
                    double stage) { return std::min(size.microbatches, size.stages - stage); },
    .bubble_formula = "(p-1)(F+B)",
    .bubble = fill_and_drain,
    .longest_path =
        [](StagePath const& path) {
          return fill_and_drain_path(path, std::min(path.size.microbatches - 1, path.after));
        },
};

}  // namespace shardbench
