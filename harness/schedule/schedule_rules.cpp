#include "harness/schedule/schedule_rules.hpp"

#include <algorithm>

#include "kernels/core/index.hpp"

namespace shardbench {

ScheduleRules const& rules_of(ScheduleKind kind) {
#define SHARDBENCH_RULES(name) &name##_rules,
  static constexpr EnumArray<ScheduleKind, ScheduleRules const*> rules{{SHARDBENCH_SCHEDULES(SHARDBENCH_RULES)}};
#undef SHARDBENCH_RULES
  return *rules[kind];
}

std::string_view to_string(ScheduleKind kind) { return rules_of(kind).name; }

std::string microbatches_problem(ScheduleKind schedule, std::int64_t pp, std::int64_t microbatches) {
  MicrobatchRule const& rule = rules_of(schedule).microbatches;
  return rule.fit(pp, microbatches) ? std::string() : "schedule: " + rule.problem(pp, microbatches);
}

std::optional<double> fill_and_drain(PipelineSize const& size, PassTimes const& stage) {
  return (size.stages - 1) * (stage.forward + stage.backward());
}

double fill_and_drain_path(StagePath const& path, double taken) {
  double const message = path.own.transfer;
  return path.work + path.forward_before + path.backward_before + 2 * path.before * message +
         std::max(0.0, path.forward_after + path.backward_after + 2 * path.after * message -
                           taken * (path.own.forward + message));
}

bool never_sends_ahead(std::int64_t, std::int64_t) { return false; }

}  // namespace shardbench
