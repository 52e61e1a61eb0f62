#include "harness/schedule/stage_order.hpp"

namespace shardbench {
namespace {

/// Without a pipeline each microbatch's backward follows its forward, so one set of activations is alive.
void order_one_stage(PipelineSchedule& s) {
  auto& actions = s.order[0];
  actions.clear();
  for (std::int32_t m = 0; m < s.microbatches; ++m) {
    actions.push_back({.kind = ActionKind::forward, .microbatch = m});
    actions.push_back({.kind = ActionKind::backward, .microbatch = m});
  }
}

}  // namespace

PipelineSchedule ordered_stages(ScheduleKind kind, std::int64_t stages, std::int64_t chunks, std::int64_t microbatches,
                                bool trains) {
  bool const pipelined = (stages > 1 || chunks > 1) && trains;
  PipelineSchedule s = make_schedule(pipelined ? kind : ScheduleKind::gpipe, stages, chunks, microbatches);
  if (s.stages == 1 && s.chunks == 1) order_one_stage(s);
  if (!trains)
    for (auto& actions : s.order) std::erase_if(actions, [](Action const& a) { return a.kind != ActionKind::forward; });
  add_transfers(s);
  return s;
}

}  // namespace shardbench
