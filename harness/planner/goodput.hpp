#pragma once
#include <cstdint>

namespace shardbench {

/// How a long job loses time. Seconds and device-hours.
struct FailureModel {
  double mtbf_device_hours = 0;  ///< device-hours between failures that stop the job, 0: it never fails
  double checkpoint_s = 10;      ///< training stands still that long for a checkpoint
  double restart_s = 300;        ///< from a failure to the first step of the restarted job
  double straggler_share = 0;    ///< steps are that much longer than planned, as a share (slow devices, jitter)
};

/// What of a job's time is training.
struct Goodput {
  double job_mtbf_hours = 0;         ///< time between failures of the whole job, 0 without failures
  double checkpoint_interval_s = 0;  ///< the best one, 0 without failures
  double effective_share = 1;        ///< training time / elapsed time
};

/// Young's interval sqrt(2 C M) in Daly's first-order form (J. T. Daly, FGCS 2006): lost = C/T + T/(2M) + R/M, where C
/// is the checkpoint, M the job's time between failures (device MTBF / devices), R the restart. Throws InputError when
/// more time is lost than there is.
Goodput goodput(std::int64_t devices, FailureModel const& failures);

/// A training run in numbers people budget with.
struct TrainingBudget {
  double steps = 0, days = 0, device_hours = 0;
  double cost = 0;  ///< price_per_device_hour * device_hours, 0 without a price
};

/// tokens / (tokens a step) steps of `step_ms`, stretched by what goodput leaves.
TrainingBudget training_budget(double tokens, double tokens_per_step, double step_ms, std::int64_t devices,
                               Goodput const& share, double straggler_share, double price_per_device_hour);

}  // namespace shardbench
