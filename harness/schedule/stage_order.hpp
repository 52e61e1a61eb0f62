#pragma once
#include "harness/schedule/schedule.hpp"

namespace shardbench {

/// What each stage of a step does, in order, transfers included: the same for all ranks of the job. Without `trains`
/// only forwards are there; without a pipeline each microbatch's backward follows its forward.
PipelineSchedule ordered_stages(ScheduleKind kind, std::int64_t stages, std::int64_t chunks, std::int64_t microbatches,
                                bool trains);

}  // namespace shardbench
