#pragma once
#include <vector>

#include "harness/program/lowered_step.hpp"
#include "harness/record/timeline.hpp"
#include "harness/schedule/schedule_rules.hpp"

namespace shardbench {

/// How long things take; milliseconds.
class DurationModel {
 public:
  virtual ~DurationModel() = default;
  /// A compute op on one rank.
  virtual double compute_ms(StepProgram const& program, Op const& op, bool adds) const = 0;
  /// A collective, all ranks of its group starting together.
  virtual double collective_ms(StepProgram const& program, Op const& op) const = 0;
  /// A message between neighbouring stages, from the moment both sides are there.
  virtual double transfer_ms(StepProgram const& program, Op const& op) const = 0;
  /// The links that communication takes up, and for how much of its time (ms) others on them must wait.
  struct LinkUse {
    int link = -1;  ///< -1: none that is shared
    double busy_ms = 0;
  };
  virtual LinkUse link_use(StepProgram const&, Op const&) const { return {}; }
  /// How much slower compute is, as a share, while communication runs beside it on the device.
  virtual double slowdown_beside_communication() const { return 0; }
  /// For how much of the time of compute beside it communication stands still, as on processors that do both.
  virtual double stall_beside_compute() const { return 0; }
  /// Time the host takes to launch an op; it runs ahead of the device and an op starts no earlier than it is launched.
  virtual double issue_ms(StepProgram const&, Op const&) const { return 0; }
  /// Whether the host, too, waits where compute awaits a message, and so loses its lead.
  virtual bool host_awaits_messages() const { return false; }
  /// Whether a pipeline receive is posted as soon as its buffer is free, not when compute gets to it.
  virtual bool receives_ahead(StepProgram const&) const { return false; }
};

struct SimulationOptions {
  bool record_spans = true;  ///< keep every interval (trace, breakdown); off for the longest programs
  bool record_runs = false;  ///< keep when each run of a stage's replay was over
  bool break_down = false;   ///< the breakdown, without record_spans too: from spans joined where they touch
};

/// One simulated stage.
struct StageTimeline {
  double end_ms = 0;
  double compute_ms = 0;           ///< sum of compute ops
  double awaited_ms = 0;           ///< compute standing still for a pipeline receive
  std::vector<Span> spans;         ///< compute and communication; empty without record_spans
  std::vector<double> run_end_ms;  ///< [run] when all that was issued until its end was over; empty without record_runs
  std::vector<Span> waits;         ///< receives posted before their sender was ready
  Breakdown breakdown;             ///< over [0, step]; zero without record_spans and break_down
};

/// What a simulated step took.
struct SimulationResult {
  double step_ms = 0;  ///< the slowest stage
  std::vector<StageTimeline> stages;
  std::int64_t op_events = 0;  ///< ops played, transfers included
};

/// Plays one program per pipeline stage (the ranks of a stage do the same) with streams, dependencies and matched
/// messages. Sends finish when their receive is posted (rendezvous). Throws Error listing each stage's next action when
/// nobody can go on.
SimulationResult simulate(std::vector<LoweredStage> const& stages, DurationModel const& durations,
                          SimulationOptions options = {});
SimulationResult simulate(std::vector<StepProgram> const& programs, DurationModel const& durations,
                          SimulationOptions options = {});

/// The bare schedule as programs of one op per action, so that schedules are simulated by the same engine.
std::vector<StepProgram> schedule_programs(PipelineSchedule const& schedule);

/// What a schedule costs by itself.
struct ScheduleSummary {
  double step = 0;                            ///< length of the step
  double ideal = 0;                           ///< work of one stage
  double bubble = 0;                          ///< step - ideal
  double bubble_fraction = 0;                 ///< bubble / step
  std::vector<std::int32_t> activation_peak;  ///< [stage] most microbatch-chunks held at once
};
ScheduleSummary summarize_schedule(PipelineSchedule const& schedule, PassTimes const& times);

}  // namespace shardbench
