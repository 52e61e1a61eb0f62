#include <algorithm>

#include "harness/schedule/schedule_rules.hpp"
#include "harness/schedule/zero_bubble.hpp"

namespace shardbench {
namespace {

/// With B the whole backward pass: of the bubble of 1F1B, (p-1)(F+B), two weight gradients a stage are filled in.
std::optional<double> bubble(PipelineSize const& size, PassTimes const& stage) {
  if (size.microbatches < size.stages) return std::nullopt;
  return (size.stages - 1) * (stage.forward + stage.backward() - 2 * stage.backward_weight);
}

double longest_path(StagePath const& path) {
  auto const& [forward, input, weight, message] = path.own;
  double const taken = std::min(path.size.microbatches, path.size.stages) - 1;
  return path.work + path.forward_before + path.before * message +
         std::max({0.0, path.forward_after + path.input_after + 2 * path.after * message - taken * (forward + message),
                   path.input_before + path.before * message - path.size.microbatches * weight});
}

}  // namespace

constinit ScheduleRules const zb_h1_rules{
    .name = "zb-h1",
    .summary = "weight gradients fill the bubble at the memory of 1F1B",
    .source = "Qi et al. 2024, Zero Bubble Pipeline Parallelism",
    .megatron = std::nullopt,
    .torchtitan = "",
    .fixed_chunks = 1,
    .layout = PieceLayout::round_robin,
    .even_stages = false,
    .microbatches = any_microbatches,
    .splits_backward = true,
    .sends_ahead = [](std::int64_t, std::int64_t) { return true; },
    .planned = true,
    // Each stage may hold as many microbatches as the first one of 1F1B: the published memory of ZB-H1.
    .order = [](PipelineSchedule& s) { order_zero_bubble(s, s.stages); },
    .in_flight = [](PipelineSize const& size,
                    double stage) { return std::min(size.microbatches, size.stages - stage); },
    .bubble_formula = "(p-1)(F+B-2W)",
    .bubble = bubble,
    .longest_path = longest_path,
};

}  // namespace shardbench
