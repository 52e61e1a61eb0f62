#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "harness/planner/plan.hpp"

namespace shardbench {

/// What planning for one device count came to.
struct DeviceTrial {
  std::int64_t devices = 0;
  bool possible = false;   ///< a legal cut that fits in memory
  bool meets = false;      ///< what is demanded of it (the deadline, the latencies)
  bool simulated = false;  ///< closed forms alone did not tell
  double time = 0;         ///< the time that the demand limits, any unit; 0 when not possible
};

/// Every trial, in the order tried, and the fewest devices that met the demand, 0 when none did.
struct DeviceSearch {
  std::vector<DeviceTrial> trials;
  std::int64_t devices = 0;
  std::size_t ruled_out = 0;          ///< counts that were not tried, as their layers alone take too long (CountBound)
  std::vector<std::int64_t> untried;  ///< counts that were passed over, below the answer where there is one
};

/// Tries the counts, ascending, until one meets the demand. Once `most_trials` failed, only those that are at least
/// twice the last one, and the last of all.
DeviceSearch fewest_devices(std::span<std::int64_t const> counts, std::size_t most_trials,
                            std::function<DeviceTrial(std::int64_t)> const& attempt);

/// Whether a step of the request takes at most `enough_ms` on its devices (infinity: whether any fits): by the closed
/// forms, and where they leave it open by simulation of what they tell fastest. time: of a step.
DeviceTrial try_step(PlanRequest const& request, CostModel const& model, PlanOptions options, double enough_ms,
                     PlanCoster& coster);

/// A doubling of devices gains less than this share of itself: there the curve has bent.
inline constexpr double bend_share = 0.8;

/// Index of the last point before the curve bends: the next doubling (or whatever the next step is) returns less than
/// bend_share of the devices that it adds. The last index when it never does. Times and devices ascend together.
std::size_t bend_of(std::vector<std::int64_t> const& devices, std::vector<double> const& step_ms);

}  // namespace shardbench
