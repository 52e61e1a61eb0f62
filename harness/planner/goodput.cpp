#include "harness/planner/goodput.hpp"

#include <fmt/format.h>

#include <cmath>

#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr double seconds_per_hour = 3600, hours_per_day = 24;

}  // namespace

Goodput goodput(std::int64_t devices, FailureModel const& f) {
  Goodput g;
  if (f.mtbf_device_hours <= 0) return g;
  g.job_mtbf_hours = f.mtbf_device_hours / static_cast<double>(devices);
  double const between = seconds_per_hour * g.job_mtbf_hours;
  g.checkpoint_interval_s = std::sqrt(2 * f.checkpoint_s * between);
  double const lost = (f.checkpoint_s > 0 ? f.checkpoint_s / g.checkpoint_interval_s : 0) +
                      g.checkpoint_interval_s / (2 * between) + f.restart_s / between;
  if (lost >= 1)
    throw InputError(fmt::format(
        "goodput: {} devices fail every {:.0f} s, which checkpoints of {:g} s and restarts of {:g} s do not "
        "outlast; allowed: less of either, or fewer devices",
        devices, between, f.checkpoint_s, f.restart_s));
  g.effective_share = 1 - lost;
  return g;
}

TrainingBudget training_budget(double tokens, double tokens_per_step, double step_ms, std::int64_t devices,
                               Goodput const& share, double straggler_share, double price_per_device_hour) {
  TrainingBudget b;
  b.steps = std::ceil(tokens / tokens_per_step);
  double const hours = b.steps * step_ms * (1 + straggler_share) * 1e-3 / seconds_per_hour / share.effective_share;
  b.days = hours / hours_per_day;
  b.device_hours = hours * static_cast<double>(devices);
  b.cost = b.device_hours * price_per_device_hour;
  return b;
}

}  // namespace shardbench
