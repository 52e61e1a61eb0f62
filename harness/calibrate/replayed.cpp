#include "harness/calibrate/replayed.hpp"

#include <fmt/format.h>

#include "harness/exec/measure.hpp"
#include "harness/exec/runner.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

void ReplayedDurations::measure_stage(LoweredStage const& stage, Experiment const& experiment, Device& device) {
  StepProgram const& program = stage.program();
  for (Segment const& segment : program.segments)
    for (Op const& op : segment.ops)
      if (op.kind == OpKind::all_to_all && op.host_dependent)
        throw IllegalConfig(
            "replay: routed tokens come from other ranks, and their counts with them; replay runs --ep 1 only");
  auto const alone = make_self_communicator();
  Runner runner(stage, device, *alone, {.skip_communication = true, .optimizer = {}});
  Experiment e = experiment;
  e.check = false;
  Measurement const measured = measure(runner, e, device, *alone);
  std::vector<double>& times = label_ms_[program.stage];
  times.assign(program.labels.size(), 0);
  for (LabelTime const& t : measured.labels)
    if (t.label < times.size() && t.count > 0) times[t.label] = t.total_ms / static_cast<double>(t.count);
}

double ReplayedDurations::compute_ms(StepProgram const& program, Op const& op, bool) const {
  auto const stage = label_ms_.find(program.stage);
  VALIDATE(stage != label_ms_.end(), fmt::format("stage {} was not measured", program.stage));
  return stage->second.at(op.label);
}

}  // namespace shardbench
