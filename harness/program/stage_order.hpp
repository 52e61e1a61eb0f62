#pragma once
#include "harness/config/experiment.hpp"
#include "harness/program/schedule.hpp"

namespace shardbench {

/// What each stage of a resolved experiment does, in order, transfers included: the same for all ranks of the job.
PipelineSchedule ordered_stages(Experiment const& experiment);

}  // namespace shardbench
