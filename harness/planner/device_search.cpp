#include "harness/planner/device_search.hpp"

#include <cmath>

#include "kernels/core/error.hpp"

namespace shardbench {

DeviceSearch fewest_devices(std::span<std::int64_t const> counts, std::size_t most_trials,
                            std::function<DeviceTrial(std::int64_t)> const& attempt) {
  DeviceSearch search;
  for (std::int64_t const n : counts) {
    bool const all = search.trials.size() < most_trials;
    if (!all && n < 2 * search.trials.back().devices && n != counts.back()) {
      search.untried.push_back(n);
      continue;
    }
    search.trials.push_back(attempt(n));
    if (!search.trials.back().meets) continue;
    search.devices = n;
    break;
  }
  return search;
}

DeviceTrial try_step(PlanRequest const& request, CostModel const& model, PlanOptions options, double enough_ms,
                     PlanCoster& coster) {
  DeviceTrial trial{.devices = request.devices};
  options.enough_ms = enough_ms;
  PlanResult result;
  try {
    result = plan(request, model, options, coster);
  } catch (InputError const&) {  // nothing legal has a program
    return trial;
  }
  trial.possible = result.screened_ms > 0;
  trial.time = result.screened_ms;
  trial.simulated = result.looks > 0;
  if (result.best.empty()) {
    // Without a limit on time all that seemed to fit was simulated, and none of it does.
    trial.possible = trial.possible && std::isfinite(enough_ms);
    return trial;
  }
  trial.time = result.best.front().step_ms;
  trial.meets = trial.time <= enough_ms;
  return trial;
}

std::size_t bend_of(std::vector<std::int64_t> const& devices, std::vector<double> const& step_ms) {
  for (std::size_t i = 0; i + 1 < devices.size(); ++i) {
    double const added = static_cast<double>(devices[i + 1]) / static_cast<double>(devices[i]);
    if (step_ms[i] / step_ms[i + 1] < bend_share * added) return i;
  }
  return devices.empty() ? 0 : devices.size() - 1;
}

}  // namespace shardbench
